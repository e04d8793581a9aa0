// The board, quicker: the tray keeps what is ticked over pages and searches, keys lead through the
// rows, sizes have sliders. Without this file all of it is links and forms. Needs inplace.js.
(function () {
  var root = document, MAX = 6, CHOSEN = 'plumbline-chosen', KEYS_OFF = 'plumbline-keys-off';
  function one(selector, within) { return (within || root).querySelector(selector); }
  function all(selector, within) { return Array.from((within || root).querySelectorAll(selector)); }
  function stored(storage, key) { try { return storage.getItem(key); } catch (e) { return null; } }
  function store(storage, key, value) {
    try { if (value) storage.setItem(key, value); else storage.removeItem(key); } catch (e) {}
  }

  // The tray: what is ticked, by name, on whatever page it stands; the address adds to it.
  var chosen = [];
  try { chosen = JSON.parse(stored(sessionStorage, CHOSEN)) || []; } catch (e) {}
  function has(variant) { return chosen.some(function (model) { return model.variant === variant; }); }
  function add(field) {
    if (chosen.length < MAX && !has(field.value)) chosen.push({ variant: field.value, name: field.dataset.name });
  }
  function drop(variant) { chosen = chosen.filter(function (model) { return model.variant !== variant; }); }
  function chip(model, place) {
    var item = root.createElement('li'), button = root.createElement('button');
    button.type = 'button';
    button.className = 'chip';
    button.setAttribute('aria-label', 'Take ' + model.name + ' out');
    [['lt', 'ABCDEF'[place]], ['', model.name], ['x', '×']].forEach(function (part) {
      var span = root.createElement('span');
      span.className = part[0];
      span.textContent = part[1];
      button.append(span);
    });
    button.addEventListener('click', function () { drop(model.variant); draw(); });
    item.append(button);
    return item;
  }
  function hidden(model) {
    var field = root.createElement('input');
    field.type = 'hidden';
    field.name = 'm';
    field.value = model.variant;
    return field;
  }
  function draw() {
    var tray = one('.tray'), boxes = all('.row .tick input'), here = {};
    store(sessionStorage, CHOSEN, chosen.length ? JSON.stringify(chosen) : '');
    boxes.forEach(function (box) {
      here[box.value] = true;
      box.checked = has(box.value);
      box.disabled = !box.checked && chosen.length >= MAX;
    });
    if (!tray) return;
    tray.classList.toggle('filled', chosen.length > 0);
    one('.elsewhere', tray).replaceChildren.apply(one('.elsewhere', tray), chosen.filter(function (model) { return !here[model.variant]; }).map(hidden));
    one('.n-of b', tray).textContent = chosen.length;
    one('ul', tray).replaceChildren.apply(one('ul', tray), chosen.map(chip));
    var go = one('[data-go]', tray);
    go.disabled = chosen.length < 2;
    go.textContent = chosen.length < 2 ? 'Tick one more' : 'Compare ' + chosen.length;
  }
  root.addEventListener('change', function (event) {
    if (!event.target.matches('.row .tick input')) return;
    if (event.target.checked) add(event.target); else drop(event.target.value);
    draw();
  });

  root.addEventListener('click', function (event) {
    if (event.target.closest('[data-clear]')) { chosen = []; draw(); }
  });

  // Sizes: two sliders on a logarithmic scale beside the two numbers.
  function sliders() {
    var box = one('.slide');
    if (!box || !box.hidden) return;
    var low = Math.log(+box.dataset.low), high = Math.log(+box.dataset.high), ends = all('input', box);
    if (!(high > low)) return;
    function size(end) { return +Math.exp(low + (high - low) * end.value / 100).toPrecision(2); }
    ends.forEach(function (end, at) {
      var field = one(at ? '#size-high' : '#size-low');
      function read() {
        end.value = field.value ? 100 * (Math.log(+field.value) - low) / (high - low) : 100 * at;
        end.setAttribute('aria-valuetext', size(end) + ' billion');
      }
      read();
      field.addEventListener('input', read);
      end.addEventListener('input', function () {
        if (at ? +end.value < +ends[0].value : +end.value > +ends[1].value) end.value = ends[1 - at].value;
        field.value = +end.value === 100 * at ? '' : size(end);
        end.setAttribute('aria-valuetext', size(end) + ' billion');
      });
    });
    box.hidden = false;
  }

  // Keys: from anywhere but a field, j and k begin at the first row in sight.
  function keysOn() { return !stored(localStorage, KEYS_OFF); }
  function move(row, step) {
    var rows = all('.board tr.row'), head = one('.board thead');
    var below = head ? Math.max(0, head.getBoundingClientRect().bottom - 1) : 0;
    var next = row ? rows[rows.indexOf(row) + step] : rows.find(function (other) { return other.getBoundingClientRect().top >= below; }) || rows[0];
    if (next) one('.model a', next).focus();
  }
  function pin(row) {
    var address = new URL(location.href), variant = row.id.slice(1);
    var pins = (address.searchParams.get('pin') || '').split(',').filter(Boolean), left = pins.filter(function (other) { return other !== variant; });
    if (left.length === pins.length) left.push(variant);
    address.searchParams.set('pin', left.join(','));
    location.href = address.href;
  }
  var from = null;
  function help() {
    var keys = one('#keys');
    if (!keys) return;
    from = root.activeElement;
    keys.open = true;
    keys.scrollIntoView({ block: 'center' });
    one('summary', keys).focus({ preventScroll: true });
  }
  function escape(event) {
    if (!from || !event.target.closest('#keys')) return;
    one('#keys').open = false;
    (from === root.body ? one('#results') : from).focus();
    from = null;
  }
  var steps = { j: 1, ArrowDown: 1, k: -1, ArrowUp: -1 };
  root.addEventListener('keydown', function (event) {
    var at = event.target, row = at.closest('.board tr.row'), letter = event.key.length === 1;
    if (event.key === 'Escape') return escape(event);
    if (event.ctrlKey || event.metaKey || event.altKey || (letter && !keysOn()) || one(inPlace.MENUS)) return;
    if (at.matches('input:not([type=checkbox]), select, textarea')) return;
    if (event.key === '/' && one('#q')) one('#q').focus();
    else if (event.key === '?') help();
    else if (event.key in steps && (row || letter)) move(row, steps[event.key]);
    else if (event.key === 'p' && row) pin(row);
    else if (event.key === 'x' && row) one('.tick input', row).click();
    else return;
    event.preventDefault();
  });
  root.addEventListener('change', function (event) {
    if (event.target.closest('.keys-on')) store(localStorage, KEYS_OFF, event.target.checked ? '' : '1');
  });

  function ready() {
    var keys = one('.keys-on'), marked = one('.board .marked');
    all('.row .tick input:checked, .tray .elsewhere input').forEach(add);
    sliders();
    draw();
    if (keys) { keys.hidden = false; one('input', keys).checked = keysOn(); }
    if (marked && !location.hash) marked.scrollIntoView({ block: 'center' });
  }
  root.addEventListener('htmx:afterSettle', function (event) {
    if (event.detail.target.id !== 'results') return;
    ready();
    if (root.activeElement === root.body) one('#results').focus({ preventScroll: true });
  });
  htmx.config.refreshOnHistoryMiss = true;
  ready();
})();
