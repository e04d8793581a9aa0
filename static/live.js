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
  document.addEventListener('htmx:afterSettle', function () {
    document.querySelectorAll('[data-problem-of]').forEach(function (note) {
      var field = document.getElementById(note.dataset.problemOf);
      if (!field) return;
      if (note.querySelector('p')) field.setAttribute('aria-invalid', 'true');
      else field.removeAttribute('aria-invalid');
    });
  });
})();
