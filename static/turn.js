// ← and → lead from one question to the one before and the one after; whoever is somewhere keeps the
// focus. Without this file the links and buttons beside them do.
(function () {
  var root = document, turned = false;
  var ways = { ArrowLeft: 'prev', ArrowRight: 'next' };
  root.addEventListener('keydown', function (event) {
    var at = event.target, way = ways[event.key];
    if (!way || event.ctrlKey || event.metaKey || event.altKey || event.shiftKey) return;
    // Fields have a use for these keys, and so has what can be scrolled.
    if (at.closest('input, select, textarea, [contenteditable], [tabindex="0"]')) return;
    var question = root.getElementById('question'), shown = question && (question.closest('article') || question.closest('section'));
    var link = shown && shown.querySelector('a[rel=' + way + ']');
    if (!link) return;
    event.preventDefault();
    turned = true;
    link.click();
  });
  root.addEventListener('htmx:afterSettle', function () {
    var heading = root.querySelector('#question-h, h2#question');
    if (turned && heading && (root.activeElement === root.body || !root.activeElement)) {
      heading.tabIndex = -1;
      heading.focus({ preventScroll: true });
    }
    turned = false;
  });
})();
