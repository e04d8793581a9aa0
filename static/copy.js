// Buttons that copy a command, a citation, a prompt or a link: added to a block of commands, or there
// already and only shown. Without this file one click selects the text, and a link is a link.
(function () {
  if (!navigator.clipboard) return;
  var said = document.createElement('p');
  said.className = 'sr';
  said.setAttribute('role', 'status');
  function text(button) {
    if (button.hasAttribute('data-copy-link')) return button.href;
    if (!button.dataset.copy) return button.parentElement.querySelector('code').textContent.trim();
    var parts = document.querySelectorAll('[data-copied="' + button.dataset.copy + '"]');
    return Array.from(parts, function (part) { return part.textContent; }).join('');
  }
  document.addEventListener('click', function (event) {
    var button = event.target.closest('[data-copy], [data-copy-link]');
    if (!button) return;
    if (button.hasAttribute('data-copy-link')) event.preventDefault();
    navigator.clipboard.writeText(text(button)).then(function () {
      if (!said.isConnected) document.body.append(said);  // htmx replaces the body when one goes back
      var word = Array.from(button.childNodes).find(function (node) {
        return node.nodeType === Node.TEXT_NODE && node.textContent.trim();
      });
      if (word.textContent === 'Copied') return;
      var before = word.textContent;
      said.textContent = word.textContent = 'Copied';
      setTimeout(function () { word.textContent = before; said.textContent = ''; }, 2000);
    });
  }, true);
  function add() {
    document.querySelectorAll('pre.cmd:not(:has(.copy)):has(code)').forEach(function (block) {
      var button = document.createElement('button');
      button.type = 'button';
      button.className = 'btn quiet copy';
      button.setAttribute('data-copy', '');
      button.textContent = 'Copy';
      block.append(button);
    });
    document.querySelectorAll('[data-copy][hidden]').forEach(function (button) { button.hidden = false; });
  }
  document.body.append(said);
  add();
  document.addEventListener('htmx:afterSwap', add);
})();
