// What all pages share whose links and forms replace <main> in place (board.js, swap.js).
(function () {
  var root = document, awaited = null;
  function isPlain(event) { return event.button === 0 && !(event.ctrlKey || event.metaKey || event.shiftKey || event.altKey); }

  // The path of a link to another view of this page, to be shown in place; null for any other.
  function linkHere(event) {
    var link = event.target.closest('#main a[href]');
    if (!link || !isPlain(event) || link.target || link.hasAttribute('download')) return null;
    return leadsHere(link.href) && link.getAttribute('href').charAt(0) !== '#' ? link : null;
  }
  function leadsHere(address) {
    var url = new URL(address, location.href);
    return url.origin === location.origin && url.pathname === location.pathname;
  }
  function swap(address, show) {
    htmx.ajax('GET', new URL(address, location.href).href, {
      source: '#main', target: '#main', select: '#main', swap: 'outerHTML show:' + show, push: 'true'
    }).catch(function () {});
  }

  // Of two choices made faster than the server answers, the newer one counts: the page that is
  // still awaited is given up, wherever in the page the two were made.
  root.addEventListener('htmx:confirm', function () {
    if (!awaited) return;
    awaited.error = '';  // htmx would call it an error in the console
    awaited.xhr.abort();
  });
  root.addEventListener('htmx:beforeRequest', function (event) { awaited = event.detail; });
  root.addEventListener('htmx:afterRequest', function (event) {
    if (awaited && awaited.xhr === event.detail.xhr) awaited = null;
  });

  // What could not be shown in place is shown as a page of its own.
  ['htmx:responseError', 'htmx:sendError'].forEach(function (name) {
    root.addEventListener(name, function (event) {
      if (event.detail.pathInfo) location.href = event.detail.pathInfo.finalRequestPath;
    });
  });

  // Menus: one at a time, closed by Escape and by a click elsewhere.
  root.addEventListener('click', function (event) {
    root.querySelectorAll('details.menu[open]').forEach(function (menu) {
      if (!menu.contains(event.target)) menu.open = false;
    });
  });
  root.addEventListener('keydown', function (event) {
    var menu = event.key === 'Escape' && event.target.closest('details.menu[open]');
    if (!menu) return;
    menu.open = false;
    menu.querySelector('summary').focus();
  });

  htmx.config.refreshOnHistoryMiss = true;
  window.inPlace = { linkHere: linkHere, leadsHere: leadsHere, swap: swap };
})();
