// Times in the reader's own zone, with UTC on hover, and the time since a moment. Without this file
// they stand in UTC.
(function () {
  function format(options) {
    return new Intl.DateTimeFormat('en-GB', Object.assign({ hour: '2-digit', minute: '2-digit', hourCycle: 'h23', timeZoneName: 'short' }, options));
  }
  var formats = {
    minute: format({ day: 'numeric', month: 'short', year: 'numeric' }),
    second: format({ second: '2-digit' })
  };
  function written(at, precision) {
    var parts = {};
    formats[precision].formatToParts(at).forEach(function (part) { parts[part.type] = part.value; });
    var zone = parts.timeZoneName.replace('GMT', 'UTC').replace('-', '−'), clock = parts.hour + ':' + parts.minute;
    if (precision === 'second') return clock + ':' + parts.second + ' ' + zone;
    return [parts.day, parts.month.slice(0, 3), parts.year, clock, zone].join(' ');
  }
  var since = new Intl.RelativeTimeFormat('en', { numeric: 'always' });
  function passed(at) {
    var minutes = Math.round((Date.now() - at) / 60000);
    if (minutes < 1) return 'just now';
    if (minutes < 60) return since.format(-minutes, 'minute');
    if (minutes < 2880) return since.format(-Math.round(minutes / 60), 'hour');
    return since.format(-Math.round(minutes / 1440), 'day');
  }
  function write() {
    document.querySelectorAll('time[data-ago]').forEach(function (time) {
      if (!time.title) time.title = time.textContent;
      time.textContent = passed(new Date(time.dateTime));
    });
    document.querySelectorAll('time[data-local]').forEach(function (time) {
      var utc = time.textContent, local = written(new Date(time.dateTime), time.dataset.local);
      time.removeAttribute('data-local');
      if (local === utc) return;
      time.textContent = local;
      time.title = utc;
    });
  }
  write();
  document.addEventListener('htmx:afterSwap', write);
})();
