// What htmx must not disturb: a refreshed part waits while somebody is in it, and a checked field
// is marked for screen readers. Without this file every page works by links and buttons.
(function () {
  function busy(region) {
    var selection = document.getSelection();
    return region.contains(document.activeElement) ||
      (selection && !selection.isCollapsed && region.contains(selection.anchorNode));
  }
  document.addEventListener('htmx:beforeRequest', function (event) {
    var region = event.target;
    if (region.hasAttribute('data-refreshed') && (document.hidden || busy(region))) event.preventDefault();
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
