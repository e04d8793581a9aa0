// Of two choices made faster than the server answers, the newer one counts: the page that is still
// awaited is given up, wherever in the page the two were made.
(function () {
  var awaited = null;
  document.addEventListener('htmx:confirm', function () {
    if (!awaited) return;
    awaited.error = '';  // htmx would call it an error in the console
    awaited.xhr.abort();
  });
  document.addEventListener('htmx:beforeRequest', function (event) { awaited = event.detail; });
  document.addEventListener('htmx:afterRequest', function (event) {
    if (awaited && awaited.xhr === event.detail.xhr) awaited = null;
  });
})();
