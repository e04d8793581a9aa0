// A button that copies each command and citation: added to a block of commands, or there already
// and only shown. Without this file one click selects the text.
(function () {
  if (!navigator.clipboard) return;
  var said = document.createElement('p');
  said.className = 'sr';
  said.setAttribute('role', 'status');
  document.body.append(said);
  function copies(button, text) {
    var words = button.innerHTML;
    button.addEventListener('click', function () {
      navigator.clipboard.writeText(text.trim()).then(function () {
        said.textContent = button.textContent = 'Copied';
        setTimeout(function () { button.innerHTML = words; said.textContent = ''; }, 2000);
      });
    });
    return button;
  }
  function button(block) {
    var button = document.createElement('button');
    button.type = 'button';
    button.className = 'btn quiet copy';
    button.textContent = 'Copy';
    return copies(button, block.querySelector('code').textContent);
  }
  function add() {
    document.querySelectorAll('pre.cmd:not(:has(.copy)):has(code)').forEach(function (block) {
      block.append(button(block));
    });
    document.querySelectorAll('[data-copy][hidden]').forEach(function (button) {
      copies(button, button.parentElement.querySelector('code').textContent).hidden = false;
    });
  }
  add();
  document.addEventListener('htmx:afterSwap', add);
})();
