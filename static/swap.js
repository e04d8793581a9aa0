// Other views of the same page replace what is there: links, searches and choices swap <main> in
// place, focus and scroll stay, the address goes along. Without this file they are links and forms.
// Needs inplace.js.
(function () {
  var root = document, waiting = 0, kept = null;
  function byId(id) { return id ? root.getElementById(id) : null; }

  // What is said when something changed, to those who do not see it.
  var status = root.createElement('p');
  status.id = 'said';
  status.className = 'sr';
  status.setAttribute('role', 'status');
  root.body.appendChild(status);
  function told() {
    return Array.from(root.querySelectorAll('#main [data-said]')).map(function (one) {
      return one.textContent.replace(/\s+/g, ' ').trim();
    });
  }

  // Where the reader is: in which element, how far down, with which menus open and what typed.
  function likeness(element) {
    var around = element.parentElement.closest('[id]'), text = element.textContent;
    return function () {
      var place = byId(around.id) || byId('main');
      return Array.from(place.querySelectorAll(element.tagName)).find(function (one) {
        return one.textContent === text && one.name === element.name && one.value === element.value;
      });
    };
  }
  // What is chosen in forms that answer at once, by form and field.
  function liveForms() { return Array.from(root.querySelectorAll('#main form[data-live]')); }
  function isCheck(field) { return field.type === 'checkbox' || field.type === 'radio'; }
  function choices(form) {
    return Array.from(form.elements).filter(function (field) {
      return field.name && field.type !== 'search' && field.type !== 'hidden';
    });
  }
  function nameOf(field) { return field.name + (isCheck(field) ? '=' + field.value : ''); }
  function chosen() {
    return liveForms().map(function (form) {
      var found = {};
      choices(form).forEach(function (field) { found[nameOf(field)] = isCheck(field) ? field.checked : field.value; });
      return found;
    });
  }
  // What was chosen while the page was awaited is chosen in the new one, too, and asked for.
  function chooseAgain(was) {
    liveForms().forEach(function (form, place) {
      var sent = was.chosen[place] || {}, now = was.now[place] || {}, more = false;
      choices(form).forEach(function (field) {
        var name = nameOf(field);
        if (!(name in now) || now[name] === sent[name]) return;
        if (isCheck(field)) field.checked = now[name]; else field.value = now[name];
        more = true;
      });
      if (more) later(form, 0);
    });
  }
  function remember(was) {
    was.now = chosen();
    var at = root.activeElement, main = byId('main'), inside = main.contains(at) && at !== main;
    was.find = inside && !at.id ? likeness(at) : null;
    was.top = inside ? at.getBoundingClientRect().top : null;
    was.typed = inside && at.id && at.type === 'search' ? { id: at.id, value: at.value, at: at.selectionStart } : null;
    was.folds = Array.from(main.querySelectorAll('details[id]')).map(function (fold) { return [fold.id, fold.open]; });
    was.told = told();
  }
  // What a link leads to is shown, unless the reader is there already.
  function isAway(target, link) {
    var around = target.closest('section') || target, top = target.getBoundingClientRect().top;
    return !(link && around.contains(link)) && (top < 0 || top > 0.7 * innerHeight);
  }
  function focus(element) {
    if (element.tabIndex < 0) element.tabIndex = -1;
    element.focus({ preventScroll: true });
  }
  function restore(was) {
    was.folds.forEach(function (fold) { if (byId(fold[0])) byId(fold[0]).open = fold[1]; });
    var field = was.typed && byId(was.typed.id), more = field && was.typed.value !== was.sent[field.id];
    if (field && (more || 'live' in field.form.dataset)) {
      field.value = was.typed.value;
      field.setSelectionRange(was.typed.at, was.typed.at);
      if (more && 'live' in field.form.dataset) later(field.form, 350);
    }
    chooseAgain(was);
    var target = byId(was.target), same = was.find && was.find();
    if (same) focus(same);
    var at = root.activeElement === root.body ? null : root.activeElement;
    if (at && was.top !== null) scrollBy(0, at.getBoundingClientRect().top - was.top);
    if (target && (was.jump || isAway(target, at))) {
      target.scrollIntoView();
      focus(target);
    } else if (!at) focus(target || byId('main'));
    var news = told().filter(function (text) { return was.told.indexOf(text) < 0; });
    if (news.length) status.textContent = news.join('. ');
  }

  function swapTo(address, target, jump) {
    var url = new URL(address, location.href);
    kept = { target: target || url.hash.slice(1), jump: jump, sent: {}, chosen: chosen() };
    root.querySelectorAll('#main [type=search]').forEach(function (field) { kept.sent[field.id] = field.value; });
    url.hash = '';
    htmx.ajax('GET', url.href, {
      source: '#main', target: '#main', select: '#main', swap: 'outerHTML show:none', push: 'true'
    }).catch(function () {});
  }
  root.addEventListener('htmx:beforeSwap', function (event) {
    if (event.detail.target.id === 'main' && kept) remember(kept);
  });
  root.addEventListener('htmx:afterSwap', function (event) {
    if (event.target.id !== 'main' || !kept) return;
    var was = kept;
    kept = null;
    restore(was);
  });

  // The link to another view of this page that is followed, to be shown in place; null for any other.
  function isPlain(event) { return event.button === 0 && !(event.ctrlKey || event.metaKey || event.shiftKey || event.altKey); }
  function linkHere(event) {
    var link = event.target.closest('#main a[href]');
    if (!link || !isPlain(event) || link.target || link.hasAttribute('download')) return null;
    return leadsHere(link.href) && link.getAttribute('href').charAt(0) !== '#' ? link : null;
  }
  function leadsHere(address) {
    var url = new URL(address, location.href);
    return url.origin === location.origin && url.pathname === location.pathname;
  }
  root.addEventListener('click', function (event) {
    var link = linkHere(event);
    if (!link) return;
    event.preventDefault();
    var pager = link.closest('.pager'), list = pager && pager.closest('section');
    swapTo(link.href, list && !link.hash ? list.id : '', !!pager);
  });

  // A form’s state as addresses have it: several values joined, empty ones left out.
  function submit(form) {
    var given = new FormData(form), fields = new URLSearchParams();
    Array.from(new Set(given.keys())).forEach(function (name) {
      var value = given.getAll(name).map(function (one) { return one.trim(); }).filter(Boolean).join(',');
      if (value) fields.set(name, value);
    });
    swapTo('?' + fields);
  }
  function later(form, wait) {
    clearTimeout(waiting);
    waiting = setTimeout(function () { if (form.isConnected) submit(form); }, wait);
  }
  root.addEventListener('submit', function (event) {
    var form = event.target;
    if (form.method !== 'get' || !form.closest('#main') || !leadsHere(form.action)) return;
    event.preventDefault();
    clearTimeout(waiting);
    submit(form);
  });
  root.addEventListener('change', function (event) {
    var form = event.target.form;
    // A date is written in three parts, each of which is a change.
    if (form && 'live' in form.dataset && event.target.type !== 'search') later(form, event.target.type === 'date' ? 900 : 0);
  });
  root.addEventListener('input', function (event) {
    var form = event.target.form;
    if (form && 'live' in form.dataset && event.target.type === 'search') later(form, 350);
  });
  htmx.config.refreshOnHistoryMiss = true;
})();
