"""What search engines and other sites read of a page: its title twice, its data as JSON-LD."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from django import template
from django.template.base import NodeList, Parser, Token
from django.template.context import Context
from django.utils.safestring import SafeString, mark_safe

register = template.Library()

_NO_TAGS = {ord(sign): f"\\u{ord(sign):04X}" for sign in "<>&\u2028\u2029"}


class Remembered(template.Node):
    def __init__(self, name: str, nodelist: NodeList) -> None:
        self.name = name
        self.nodelist = nodelist

    def render(self, context: Context) -> SafeString:
        text = " ".join(self.nodelist.render(context).split())
        context[self.name] = mark_safe(text)  # noqa: S308 escaped where it was rendered
        return mark_safe("")


@register.tag
def remember(parser: Parser, token: Token) -> Remembered:
    """`{% remember name %}{% block … %}…{% endremember %}` keeps a block for several places."""
    nodelist = parser.parse(("endremember",))
    parser.delete_first_token()
    return Remembered(token.split_contents()[1], nodelist)


@register.simple_tag
def json_ld(data: Mapping[str, Any]) -> SafeString:
    """The data as a script element that nothing runs and that no text in it can end."""
    text = json.dumps(data, ensure_ascii=False).translate(_NO_TAGS)
    return mark_safe(f'<script type="application/ld+json">{text}</script>')  # noqa: S308
