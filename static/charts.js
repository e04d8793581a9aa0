// Charts: the figure that the server made, drawn by plotly in the colours of the theme; its card,
// its legend, and its pictures. Without this file the table below says the same.
(function () {
  var box = document.querySelector('[data-figure]'), spot = document.querySelector('[data-spot]');
  var downloads = document.querySelector('[data-downloads]'), probe = document.createElement('span');
  var touch = matchMedia('(hover: none)'), narrow = matchMedia('(max-width: 820px)');
  var config = {
    displaylogo: false, showSendToCloud: false, toImageButtonOptions: { format: 'svg' }, responsive: true,
    modeBarButtonsToRemove: ['toImage', 'select2d', 'lasso2d', 'autoScale2d'], doubleClick: 'reset'
  };
  var figure = null, hidden = new Set();
  document.body.append(probe);
  probe.hidden = true;

  // What a token is in the reader's theme; everything else stays as it is.
  function coloured(value, key) {
    if (typeof value === 'string' && value.startsWith('var(')) {
      probe.style.color = value;
      return getComputedStyle(probe).color;
    }
    if (key === 'customdata' || !value || typeof value !== 'object' || 'bdata' in value) return value;
    if (Array.isArray(value)) return value.map(function (one) { return coloured(one); });
    return Object.fromEntries(Object.entries(value).map(function (pair) { return [pair[0], coloured(pair[1], pair[0])]; }));
  }
  // The site's look: pale axes, their names at their ends, names beside dots, a crosshair.
  var PALE = { color: 'var(--ink-3)' }, AXIS = {
    gridcolor: 'var(--rule)', zeroline: false, tickfont: PALE, tickangle: 0, showspikes: true, spikemode: 'toaxis',
    spikedash: 'dot', spikethickness: 1, spikecolor: 'var(--ink-3)', spikesnap: 'data'
  };
  function themed() {
    var made = structuredClone(figure.layout), ends = [['xaxis', { x: 1, y: 0, yshift: -42, xanchor: 'right' }],
      ['yaxis', { x: 0, y: 1, xshift: -40, yshift: 6, xanchor: 'left' }]];
    var layout = Object.assign(made, {
      template: 'none', font: { size: 12, color: 'var(--ink)', family: getComputedStyle(document.body).fontFamily },
      paper_bgcolor: 'var(--paper)', plot_bgcolor: 'var(--paper)', showlegend: false, hovermode: 'closest', hoverdistance: 14,
      margin: { l: 44, r: 12, t: 26, b: 44 }
    });
    layout.annotations = (made.annotations || []).map(function (name) {
      return Object.assign({ showarrow: false, xanchor: 'right', yanchor: 'bottom', xshift: -9, yshift: 3 }, name, { showarrow: false });
    });
    ends.forEach(function (end) {
      var axis = Object.assign({}, AXIS, made[end[0]]), name = axis.title && axis.title.text;
      delete axis.title;
      layout[end[0]] = axis;
      if (!name) return;
      var words = end[0] === 'xaxis' ? name + ' →' : '↑ ' + name;
      layout.annotations.push(Object.assign({ xref: 'paper', yref: 'paper', showarrow: false, yanchor: 'bottom', font: PALE }, end[1], { text: words }));
    });
    var drawn = { layout: coloured(layout), data: coloured(figure.data) };
    drawn.data.forEach(function (trace) {
      trace.visible = !hidden.has(trace.legendgroup);
      if (trace.mode === 'markers' && trace.marker.size > 10 && !/open/.test(trace.marker.symbol)) {
        trace.marker.line = { color: drawn.layout.paper_bgcolor, width: 1.5 };
      }
    });
    return drawn;
  }
  function draw() {
    if (!figure) return;
    var drawn = themed();
    drawn.layout.dragmode = touch.matches ? false : 'zoom';
    if (narrow.matches && drawn.layout.yaxis.ticktext) {
      drawn.layout.yaxis.ticktext = drawn.layout.yaxis.ticktext.map(function (name) {
        return name.length > 18 ? name.slice(0, 17) + '…' : name;
      });
    }
    return Plotly.react(box, drawn.data, drawn.layout, config);
  }

  // Names beside dots: the first of two that would touch each other has the room.
  function room(gd) {
    var pen = document.createElement('canvas').getContext('2d'), taken = [], changes = {};
    var across = gd._fullLayout.xaxis, up = gd._fullLayout.yaxis, names = gd.layout.annotations || [];
    function apart(one, other) {
      return one.right < other.left || other.right < one.left || one.bottom < other.top || other.bottom < one.top;
    }
    var dots = names.filter(function (name) { return name.name !== undefined && !hidden.has(name.name); }).map(function (name) {
      var x = across.l2p(name.x), y = up.l2p(name.y);
      return { name: name, left: x - 7, right: x + 7, top: y - 7, bottom: y + 7 };
    });
    pen.font = '12px ' + gd._fullLayout.font.family;
    names.forEach(function (name, number) {
      if (name.name === undefined) return;
      var right = across.l2p(name.x) - 9, wide = pen.measureText(name.text).width + 4, lift = [3, 19].find(function (up_by) {
        var bottom = up.l2p(name.y) - up_by;
        var own = { left: right - wide, right: right, top: bottom - (narrow.matches ? 44 : 17), bottom: bottom };
        var fits = own.left > -across._offset && right < across._length && bottom - 17 > (narrow.matches ? 0 : -24) && bottom < up._length &&
          !hidden.has(name.name) && taken.every(function (other) { return apart(own, other); }) &&
          dots.every(function (dot) { return dot.name === name || apart(own, dot); });
        if (fits) taken.push(own);
        return fits;
      });
      if ((name.visible !== false) !== Boolean(lift)) changes['annotations[' + number + '].visible'] = Boolean(lift);
      if (lift && name.yshift !== lift) changes['annotations[' + number + '].yshift'] = lift;
    });
    return Object.keys(changes).length ? Plotly.relayout(gd, changes) : Promise.resolve();
  }

  // The card of a dot: the row of the table, its main number large.
  function line(parent, name, text) {
    var made = document.createElement(name);
    made.textContent = text;
    parent.append(made);
    return made;
  }
  function show(point) {
    var card = spot.firstElementChild, cells = point.customdata, heads = JSON.parse(box.dataset.heads);
    var x = point.xaxis._offset + point.xaxis.d2p(point.x), y = point.yaxis._offset + point.yaxis.d2p(point.y);
    card.replaceChildren();
    var name = line(card, cells[0][2] ? 'a' : 'b', cells[0][0].split('/').pop());
    if (cells[0][2]) name.href = cells[0][2];
    line(card, 'small', [cells[0][0].split('/').slice(0, -1).join('/'), cells[0][1]].filter(Boolean).join(' · '));
    cells.slice(1).forEach(function (cell, number) {
      if (!cell[0]) return;
      var last = number === cells.length - 2 && !cell[1];
      var row = line(card, 'p', '');
      row.className = number ? last ? 'praise' : '' : 'main';
      if (!last) line(row, 'span', heads[number + 1]);
      line(row, 'b', cell[0]);
      if (cell[1]) line(row, 'small', cell[1]);
    });
    spot.hidden = false;
    spot.style.left = x + 'px';
    spot.style.top = y + 'px';
    spot.classList.toggle('left', x > box.clientWidth / 2);
    spot.classList.toggle('up', y > box.clientHeight / 2);
  }
  function listen() {
    box.on('plotly_hover', function (event) { if (event.points[0].customdata) show(event.points[0]); });
    box.on('plotly_unhover', function () { if (!touch.matches) spot.hidden = true; });
    box.on('plotly_relayout', function () { spot.hidden = true; });
    box.on('plotly_afterplot', function () { room(box); });
    box.on('plotly_click', function (event) {
      var url = event.points[0].customdata && event.points[0].customdata[0][2];
      if (touch.matches) show(event.points[0]);
      else if (url) location.href = url;
    });
  }

  // A picture has its title, whose numbers these are, and their day.
  function posed() {
    var drawn = themed(), height = (drawn.layout.height || 560) + 90;
    function escaped(text) { return text.replace(/&/g, '&amp;').replace(/</g, '&lt;'); }
    drawn.layout.title = {
      text: escaped(downloads.dataset.title), font: { size: 20 }, x: 0, xanchor: 'left', y: 1, yanchor: 'top',
      pad: { l: 12, t: 24 }, subtitle: { text: escaped(downloads.dataset.source), font: { size: 13 } }
    };
    Object.assign(drawn.layout, { width: 1200, height: height, autosize: false });
    drawn.layout.margin.t += 72;
    var gd = document.createElement('div');
    gd.className = 'posed';
    document.body.append(gd);
    return Plotly.newPlot(gd, drawn.data, drawn.layout, { staticPlot: true }).then(function () { return room(gd); })
      .then(function () { return gd; });
  }
  // An SVG that is shown, on a canvas: the content policy lets no picture of it be loaded.
  function paint(pen, node, shown, clip) {
    var style = getComputedStyle(node), kind = node.nodeName.toLowerCase();
    if (kind === 'defs' || kind === 'title' || style.display === 'none' || style.visibility === 'hidden') return;
    shown *= Number(style.opacity);
    if (node.matches('.plot')) { pen.save(); pen.beginPath(); pen.rect.apply(pen, clip); pen.clip(); }
    var at = node.getCTM && node.getCTM(), path = null;
    if (kind === 'path') path = new Path2D(node.getAttribute('d'));
    if (kind === 'rect') {
      path = new Path2D();
      path.rect(node.x.baseVal.value, node.y.baseVal.value, node.width.baseVal.value, node.height.baseVal.value);
    }
    if (at && (path || kind === 'text')) {
      pen.save();
      pen.transform(at.a, at.b, at.c, at.d, at.e, at.f);
      pen.fillStyle = style.fill;
      if (path && style.fill !== 'none') { pen.globalAlpha = shown * style.fillOpacity; pen.fill(path); }
      if (path && style.stroke !== 'none' && parseFloat(style.strokeWidth)) {
        pen.globalAlpha = shown * style.strokeOpacity;
        pen.strokeStyle = style.stroke;
        pen.lineWidth = parseFloat(style.strokeWidth);
        pen.stroke(path);
      }
      if (!path && node.getNumberOfChars()) {
        var start = node.getStartPositionOfChar(0);
        pen.globalAlpha = shown;
        pen.font = style.fontWeight + ' ' + style.fontSize + ' ' + style.fontFamily;
        pen.fillText(Array.from(node.childNodes).filter(function (one) { return one.nodeName !== 'title'; })
          .map(function (one) { return one.textContent; }).join(''), start.x, start.y);
      }
      pen.restore();
    }
    if (kind !== 'text') Array.from(node.children).forEach(function (child) { paint(pen, child, shown, clip); });
    if (node.matches('.plot')) pen.restore();
  }
  function canvas(width, height) {
    var sheet = document.createElement('canvas'), pen = sheet.getContext('2d');
    sheet.width = 2 * width;
    sheet.height = 2 * height;
    pen.scale(2, 2);
    pen.fillStyle = coloured('var(--paper)');
    pen.fillRect(0, 0, width, height);
    return pen;
  }
  function keep(pen) {
    pen.canvas.toBlob(function (blob) {
      var link = document.createElement('a');
      link.href = URL.createObjectURL(blob);
      link.download = downloads.dataset.name + '.png';
      link.click();
      URL.revokeObjectURL(link.href);
    });
  }
  function save(form) {
    var drawing = document.querySelector('[data-drawing]');
    if (drawing) {
      var parts = Array.from(drawing.querySelectorAll('svg')), wide = parts.map(function (part) { return part.width.baseVal.value; });
      var all = wide.reduce(function (sum, one) { return sum + one; }, 32);
      var sheet = canvas(Math.max(all, 792), parts[0].height.baseVal.value + 92), family = getComputedStyle(document.body).fontFamily;
      sheet.fillStyle = coloured('var(--ink)');
      sheet.font = '600 20px ' + family;
      sheet.fillText(downloads.dataset.title, 16, 34);
      sheet.font = '12px ' + family;
      sheet.fillText(downloads.dataset.source, 16, 58);
      sheet.translate(16, 76);
      parts.forEach(function (part, number) {
        paint(sheet, part, 1, []);
        sheet.translate(wide[number], 0);
      });
      return keep(sheet);
    }
    return posed().then(function (gd) {
      var all = gd._fullLayout, gone = function () { Plotly.purge(gd); gd.remove(); };
      if (form === 'svg') {
        var options = { format: 'svg', width: all.width, height: all.height, filename: downloads.dataset.name };
        return Plotly.downloadImage(gd, options).then(gone);
      }
      var pen = canvas(all.width, all.height), size = all._size;
      gd.querySelectorAll('.main-svg').forEach(function (layer) { paint(pen, layer, 1, [size.l, size.t, size.w, size.h]); });
      keep(pen);
      gone();
    });
  }

  document.addEventListener('click', function (event) {
    var button = event.target.closest('[data-save]');
    if (button) save(button.dataset.save);
  });
  document.addEventListener('change', function (event) {
    var group = event.target.dataset.group;
    if (event.target.matches('.legend select')) return event.target.form.requestSubmit();
    if (group === undefined || !figure) return;
    hidden[event.target.checked ? 'delete' : 'add'](group);
    var traces = figure.data.flatMap(function (trace, number) { return trace.legendgroup === group ? [number] : []; });
    Plotly.restyle(box, { visible: event.target.checked }, traces).then(function () { room(box); });
  });
  document.querySelectorAll('[data-save]').forEach(function (button) {
    button.hidden = button.dataset.save === 'svg' && !box;
  });
  document.querySelectorAll('[data-draw]').forEach(function (button) { button.hidden = true; });
  if (!box) return;
  fetch(box.dataset.figure).then(function (answer) { return answer.json(); }).then(function (made) {
    figure = made;
    return document.fonts.ready;
  }).then(draw).then(function () {
    listen();
    return room(box);
  }).then(function () {
    box.dataset.drawn = '';
    new MutationObserver(draw).observe(document.documentElement, { attributeFilter: ['class'] });
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', draw);
  });
})();
