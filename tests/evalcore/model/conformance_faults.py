"""Backends with one fault each, around one that is right."""

from __future__ import annotations

from dataclasses import replace

from evalcore.model.writing.generation import GenerationRequest, RollingRequest


class Around:
    """Passes everything on to the `hf` backend that it stands for."""

    def __init__(self, lm):
        self.lm = lm
        self.capabilities = lm.capabilities
        self.info = lm.info

    def encode(self, requests, *, seed=1234):
        return self.lm.encode(requests, seed=seed)

    def answer(self, requests):
        changed = [self.asked(request) for request in requests]
        for pack in self.lm.answer(changed):
            yield [
                (place, replace(self.answered(requests[place], response), key=requests[place].key))
                for place, response in pack
            ]

    def asked(self, request):
        return request

    def answered(self, request, response):
        return response

    def chat_template(self, name=None):
        return self.lm.chat_template(name)


def is_scored(request):
    return not isinstance(request, GenerationRequest | RollingRequest)


class OffByOne(Around):
    """Reads each target off the position before the one that predicts it."""

    def asked(self, request):
        if not is_scored(request):
            return request
        return replace(request, tokens=(request.tokens[0], *request.tokens[:-1]))


class DropsBos(Around):
    """Computes without the BOS that its encoded requests show."""

    def asked(self, request):
        bos = self.info.special_tokens["bos"][1]
        if not is_scored(request) or request.tokens[0] != bos or len(request.tokens) < 2:
            return request
        return replace(request, tokens=request.tokens[1:])


class ReadsWithoutBos(Around):
    """Drops BOS when it reads."""

    def encode(self, requests, *, seed=1234):
        bos = self.info.special_tokens["bos"][1]
        return [
            replace(request, tokens=request.tokens[1:])
            if is_scored(request) and request.tokens[0] == bos and request.n_context_tokens > 1
            else request
            for request in super().encode(requests, seed=seed)
        ]


class IgnoresStops(Around):
    def asked(self, request):
        if not isinstance(request, GenerationRequest):
            return request
        return replace(request, plan=replace(request.plan, until=("</s>",)))


class KeepsTheStop(Around):
    def answered(self, request, response):
        if response.finish_reason != "stop":
            return response
        return replace(response, text=response.text + request.plan.until[0])


class AveragesTokens(Around):
    """Divides the sum by the number of tokens."""

    def answered(self, request, response):
        if not is_scored(request):
            return response
        return replace(response, loglikelihood=response.loglikelihood / len(request.targets))


class LeavesOutTheLastToken(Around):
    """Of the sum and of what it shows, so that only more than one request tells."""

    def answered(self, request, response):
        if not is_scored(request) or len(request.targets) < 2:
            return response
        shown = response.token_logprobs
        return replace(response, loglikelihood=response.loglikelihood - shown[-1])


class DependsOnTheBatch(Around):
    """As padding does that is attended to."""

    def answer(self, requests):
        longest = max(len(request.tokens) for request in requests)
        for pack in super().answer(requests):
            yield [
                (
                    place,
                    replace(
                        response,
                        loglikelihood=response.loglikelihood
                        - 0.01 * (longest - len(requests[place].tokens)),
                    ),
                )
                for place, response in pack
            ]


class DependsOnTheOrder(Around):
    """Its first answer is another's."""

    def answer(self, requests):
        for pack in super().answer(requests):
            yield [
                (place, replace(response, loglikelihood=response.loglikelihood - 1.0 * (not place)))
                for place, response in pack
            ]


class DependsOnTheTime(Around):
    calls = 0

    def answer(self, requests):
        self.calls += 1
        for pack in super().answer(requests):
            yield [
                (place, replace(answer, loglikelihood=answer.loglikelihood - 0.01 * self.calls))
                for place, answer in pack
            ]


class AlwaysGreedy(Around):
    def answered(self, request, response):
        return replace(response, is_greedy=True)


class CutsTheEnd(Around):
    """Keeps the beginning of a prompt that is too long."""

    def encode(self, requests, *, seed=1234):
        encoded = super().encode(requests, seed=seed)
        (first, *_) = super().encode([type(requests[0])("loglikelihood", "a", " b")])
        return [
            replace(
                request, tokens=(request.tokens[0],) * (len(request.tokens) - 1) + first.tokens[:1]
            )
            if is_scored(request) and request.n_truncated
            else request
            for request in encoded
        ]


class CountsNoCut(Around):
    def encode(self, requests, *, seed=1234):
        return [replace(request, n_truncated=0) for request in super().encode(requests, seed=seed)]


class MixesAnswersUp(Around):
    """Two answers of a pack change places."""

    def answer(self, requests):
        for pack in self.lm.answer(requests):
            if len(pack) > 1:
                (first, one), (second, other), *rest = pack
                pack = [(first, other), (second, one), *rest]
            yield pack


class LosesAnAnswer(Around):
    def answer(self, requests):
        for pack in self.lm.answer(requests):
            yield [pair for pair in pack if pair[0] != 3]


class OneKeyForAll(Around):
    def encode(self, requests, *, seed=1234):
        return [replace(request, key="k") for request in super().encode(requests, seed=seed)]


class ScoresNoRepeat(Around):
    """Of a whole text it loses a window."""

    def asked(self, request):
        if not isinstance(request, RollingRequest) or len(request.windows) < 2:
            return request
        return replace(request, windows=request.windows[:-1])


class ForgetsWhereTheAnswerBegins(Around):
    def chat_template(self, name=None):
        template = self.lm.chat_template(name)
        return replace(template, render=lambda turns, _: template.render(turns, False))


class Breaks(Around):
    def encode(self, requests, *, seed=1234):
        raise KeyError("oh")
