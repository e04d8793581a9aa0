// What all pages share that replace a part of themselves in place, and that have menus
// (board.js, swap.js, turn.js). Without this file links, forms and `details` do the same.
(function () {
  var root = document, awaited = null;
  var PLACES = '#main, #results, #show-models, #browser', MENUS = 'details.sheet[open], details.pop[open], details.menu[open]';
  function all(selector, within) { return Array.from((within || root).querySelectorAll(selector)); }
  function isPlace(detail) { return detail.target && detail.target.matches(PLACES); }

  // Of two choices made faster than the server answers, the newer one counts: the page that is
  // still awaited is given up, wherever in the page the two were made. What is typed is sent after
  // a pause, in which a link may have been followed.
  root.addEventListener('htmx:confirm', function (event) {
    if (!awaited || !isPlace(event.detail)) return;
    var made = event.detail.triggeringEvent, before = awaited.requestConfig.triggeringEvent;
    if (made && before && made.timeStamp < before.timeStamp) return event.preventDefault();
    awaited.error = '';  // htmx would call it an error in the console
    awaited.xhr.abort();
  });
  root.addEventListener('htmx:beforeRequest', function (event) { if (isPlace(event.detail)) awaited = event.detail; });
  root.addEventListener('htmx:afterRequest', function (event) {
    if (awaited && awaited.xhr === event.detail.xhr) awaited = null;
  });

  // What cannot be shown in place, an error or a page without that place, is shown as a page of its own.
  function leave(detail) { location.href = detail.pathInfo.finalRequestPath; }
  root.addEventListener('htmx:beforeSwap', function (event) {
    var detail = event.detail;
    if (!isPlace(detail) || !detail.shouldSwap || detail.serverResponse.includes('id="' + detail.target.id + '"')) return;
    detail.shouldSwap = false;
    leave(detail);
  });
  ['htmx:responseError', 'htmx:sendError'].forEach(function (name) {
    root.addEventListener(name, function (event) {
      if (event.detail.pathInfo && isPlace(event.detail)) leave(event.detail);
    });
  });

  // Sheets and menus: one at a time, closed by a click elsewhere, by a focus that leaves, and by
  // Escape, which gives the focus back.
  function shut(menu) {
    menu.open = false;
    menu.querySelector('summary').focus();
  }
  root.addEventListener('click', function (event) {
    if (!event.isTrusted) return;  // a picture that is being saved, by a link's click of Plotly's
    all(MENUS).forEach(function (menu) {
      if (!menu.contains(event.target)) menu.open = false;
      else if (event.target.closest('[data-shut]')) {
        event.preventDefault();
        shut(menu);
      }
    });
  });
  root.addEventListener('focusout', function (event) {
    var menu = event.target.closest(MENUS);
    if (menu && event.relatedTarget && !menu.contains(event.relatedTarget)) menu.open = false;
  });
  root.addEventListener('keydown', function (event) {
    if (event.key === 'Escape') all(MENUS).forEach(shut);
    if (event.key === 'Tab') keepInside(event);
  });
  function keepInside(event) {
    var pane = root.querySelector('details.sheet[open] > .pane');
    if (!pane) return;
    var stops = all('a[href], button, input:not([type=hidden]), select', pane).filter(function (stop) {
      return !stop.disabled && stop.getClientRects().length;
    });
    var last = stops[stops.length - 1], at = root.activeElement, inside = pane.contains(at);
    if (event.shiftKey ? at === stops[0] || !inside : at === last || !inside) {
      event.preventDefault();
      (event.shiftKey ? last : stops[0]).focus();
    }
  }

  window.inPlace = { MENUS: MENUS };
})();
