// The board, quicker: filters and links swap the table in place, sizes by sliders, rows by keys.
// Without this file every one of them is a form or a link.
(function () {
  var root = document, keysOff = 'plumbline-keys-off', waiting = 0, asked = '', focused = '';
  function byId(id) { return root.getElementById(id); }

  // The form's state as the server writes addresses: several values joined, what is usual left out.
  function short(form) {
    var given = new FormData(form), fields = new URLSearchParams();
    new URLSearchParams(form.dataset.usual).forEach(function (usual, name) {
      var values = given.getAll(name).map(function (value) { return value.trim(); });
      var value = name === 'size' ? values.join('-') : values.filter(Boolean).join(',');
      if (value && value !== '-' && value !== usual) fields.set(name, value);
    });
    return '?' + fields;
  }

  // Filters: every change is a submission; letters wait until the typing pauses.
  function submit() {
    clearTimeout(waiting);
    var form = byId('filters'), now = form && short(form);
    if (!form || now === asked) return;
    asked = now;
    form.requestSubmit();
  }
  root.addEventListener('change', function (event) {
    var form = event.target.form;
    if (!form || form.id !== 'filters' || event.target.closest('.sliders')) return;
    if ('whole' in event.target.dataset) return form.submit();
    if (event.target.name === 'style') return swapTo(short(form));
    submit();
  });
  root.addEventListener('input', function (event) {
    if (event.target.id !== 'q') return;
    clearTimeout(waiting);
    waiting = setTimeout(submit, 350);
  });

  // Links to another view of the board replace what is there; scripts keep their places.
  function swapTo(address, show) {
    var row = root.activeElement.closest('.board tr[id]');
    focused = row ? row.id : '';
    inPlace.swap(address, show || 'none');
  }
  root.addEventListener('click', function (event) {
    var link = inPlace.linkHere(event);
    if (!link) return;
    event.preventDefault();
    // A link of the tray unticks a model: its address says what is left.
    if (link.closest('.tray')) root.querySelector('.boardform').dataset.unticked = '';
    swapTo(link.href, link.closest('.pager') && '#results:top');
  });
  root.addEventListener('submit', function (event) {
    if (!event.target.matches('.picker')) return;
    event.preventDefault();
    swapTo(short(event.target));
  });

  // What is ticked goes along to the next view.
  function ticked() {
    return Array.from(root.querySelectorAll('.boardform [name=m]')).filter(function (box) {
      return box.type === 'hidden' || box.checked;
    }).map(function (box) { return box.value; });
  }
  root.addEventListener('htmx:configRequest', function (event) {
    var detail = event.detail, table = root.querySelector('.boardform');
    if (detail.elt.id === 'filters') {
      detail.path = location.pathname + short(detail.elt);
      detail.parameters = {};
    }
    var address = new URL(detail.path, location.href);
    if (address.pathname !== location.pathname || !table || 'unticked' in table.dataset) return;
    var models = ticked();
    if (models.length) address.searchParams.set('m', models.join(','));
    else address.searchParams.delete('m');
    detail.path = address.pathname + address.search + address.hash;
  });

  // A page compares six models: a seventh cannot be ticked until one of them is not.
  function limit() {
    var note = root.querySelector('.tray [data-full]'), full = ticked().length >= 6;
    if (!note) return;
    note.hidden = !full;
    root.querySelectorAll('.boardform [type=checkbox][name=m]').forEach(function (box) { box.disabled = full && !box.checked; });
  }
  root.addEventListener('change', function (event) { if (event.target.name === 'm') limit(); });

  function label() {
    root.querySelectorAll('.pick').forEach(function (menu) {
      var chosen = menu.querySelector('[data-chosen]'), count = menu.querySelector('[data-count]');
      var names = Array.from(menu.querySelectorAll(':checked + span')).map(function (span) { return span.textContent; });
      var set = Array.from(menu.querySelectorAll('select')).filter(function (select) { return select.value; });
      if (chosen) chosen.textContent = names.join(', ') || 'All';
      if (count) count.textContent = set.length ? set.length + ' set' : 'All';
    });
  }
  root.addEventListener('change', label);

  // Sizes: two sliders on a logarithmic scale beside the two numbers.
  function sliders() {
    var box = root.querySelector('.sliders');
    if (!box || !box.hidden) return;
    var low = Math.log(+box.dataset.low), high = Math.log(+box.dataset.high), ends = box.querySelectorAll('input');
    var fields = [byId('size-low'), byId('size-high')];
    if (!(high > low)) return;
    function size(end) { return +Math.exp(low + (high - low) * end.value / 100).toPrecision(2); }
    function write(end, at) {
      fields[at].value = +end.value === 100 * at ? '' : size(end);
      end.setAttribute('aria-valuetext', size(end) + ' billion');
    }
    ends.forEach(function (end, at) {
      var field = fields[at];
      function read() {
        end.value = field.value ? 100 * (Math.log(+field.value) - low) / (high - low) : 100 * at;
        end.setAttribute('aria-valuetext', size(end) + ' billion');
      }
      read();
      field.addEventListener('input', read);
      end.addEventListener('input', function () {
        if (at ? +end.value < +ends[0].value : +end.value > +ends[1].value) end.value = ends[1 - at].value;
        write(end, at);
      });
      end.addEventListener('change', submit);
    });
    box.hidden = false;
  }

  // Keys: from anywhere but a field, j and k begin at the first row in sight.
  function keysOn() {
    try { return !localStorage.getItem(keysOff); } catch (e) { return true; }
  }
  function move(row, step) {
    var rows = Array.from(root.querySelectorAll('.board tbody tr:not(.band)')), head = root.querySelector('.board thead');
    var below = head ? Math.max(0, head.getBoundingClientRect().bottom - 1) : 0;
    var next = row ? rows[rows.indexOf(row) + step] : rows.find(function (one) { return one.getBoundingClientRect().top >= below; }) || rows[0];
    if (next) next.querySelector('.mid').focus();
    return next;
  }
  // The list of keys, and back to where the reader was.
  var from = null;
  function help() {
    var keys = byId('keys');
    if (!keys) return;
    from = root.activeElement;
    keys.open = true;
    keys.scrollIntoView({ block: 'center' });
    keys.querySelector('summary').focus({ preventScroll: true });
  }
  root.addEventListener('keydown', function (event) {
    if (event.key !== 'Escape' || !from || !event.target.closest('#keys')) return;
    byId('keys').open = false;
    (from === root.body ? byId('results') : from).focus();
    from = null;
  });
  var steps = { j: 1, ArrowDown: 1, k: -1, ArrowUp: -1 };
  root.addEventListener('keydown', function (event) {
    var at = event.target, row = at.closest('.board tbody tr:not(.band)'), letter = event.key.length === 1;
    if (event.ctrlKey || event.metaKey || event.altKey || (letter && !keysOn())) return;
    if (at.matches('input:not([type=checkbox]), select, textarea')) return;
    if (event.key === '/' && byId('q')) byId('q').focus();
    else if (event.key === '?') help();
    else if (event.key in steps && (row || letter)) move(row, steps[event.key]);
    else if (event.key === 'p' && row) row.querySelector('.pin').click();
    else if (event.key === 'x' && row) row.querySelector('.c1 input').click();
    else return;
    event.preventDefault();
  });
  root.addEventListener('change', function (event) {
    if (!event.target.closest('.keys-on')) return;
    try {
      if (event.target.checked) localStorage.removeItem(keysOff); else localStorage.setItem(keysOff, '1');
    } catch (e) {}
  });

  function ready() {
    var form = byId('filters'), keys = root.querySelector('.keys-on'), marked = root.querySelector('.board .marked');
    asked = form ? short(form) : '';
    sliders();
    label();
    limit();
    if (keys) { keys.hidden = false; keys.querySelector('input').checked = keysOn(); }
    if (marked && !location.hash) marked.scrollIntoView({ block: 'center' });
  }
  root.addEventListener('htmx:afterSettle', function (event) {
    if (event.detail.target.id === 'main') ready();
    if (root.activeElement !== root.body) return;
    var row = focused && byId(focused), next = row ? row.querySelector('.mid') : byId('results');
    if (next) next.focus({ preventScroll: true });
  });
  ready();
})();
