// What htmx must not disturb: a refreshed part waits while somebody is in it, and a checked field
// is marked for screen readers. Without this file every page works by links and buttons.
(function () {
  function busy(region) {
    var selection = document.getSelection();
    return region.contains(document.activeElement) ||
      (selection && !selection.isCollapsed && region.contains(selection.anchorNode));
  }
  // In a tab that nobody sees only what its title tells is asked for, and seldom.
  var asked = 0;
  function rests(region) {
    if (!document.hidden) return false;
    if (!region.hasAttribute('data-titled') || Date.now() - asked < 30000) return true;
    asked = Date.now();
    return false;
  }
  document.addEventListener('htmx:beforeRequest', function (event) {
    var region = event.target;
    if (region.hasAttribute('data-refreshed') && (busy(region) || rests(region))) event.preventDefault();
  });
  // Until the Hub has answered, a submission is sent again, unless somebody types meanwhile.
  var again = document.querySelector('[data-press-again]');
  if (again) {
    var button = document.getElementById(again.dataset.pressAgain), words = again.querySelector('[data-with-script]');
    words.textContent = words.dataset.withScript;
    var pressing = setTimeout(function () { button.form.requestSubmit(button); }, 1000);
    button.form.addEventListener('input', function () { clearTimeout(pressing); });
  }
  document.addEventListener('htmx:afterSettle', function () {
    document.querySelectorAll('[data-problem-of]').forEach(function (note) {
      var field = document.getElementById(note.dataset.problemOf);
      if (!field) return;
      if (note.querySelector('p')) field.setAttribute('aria-invalid', 'true');
      else field.removeAttribute('aria-invalid');
    });
  });
})();
