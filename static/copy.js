// A button that copies each command and citation. Without this file one click selects the text.
(function () {
  if (!navigator.clipboard) return;
  var said = document.createElement('p');
  said.className = 'sr';
  said.setAttribute('role', 'status');
  document.body.append(said);
  function button(block) {
    var text = block.querySelector('code').textContent, button = document.createElement('button');
    button.type = 'button';
    button.className = 'btn quiet copy';
    button.textContent = 'Copy';
    button.addEventListener('click', function () {
      navigator.clipboard.writeText(text.trim()).then(function () {
        said.textContent = button.textContent = 'Copied';
        setTimeout(function () { button.textContent = 'Copy'; said.textContent = ''; }, 2000);
      });
    });
    return button;
  }
  function add() {
    document.querySelectorAll('pre.cmd:not(:has(.copy)):has(code)').forEach(function (block) {
      block.append(button(block));
    });
  }
  add();
  document.addEventListener('htmx:afterSwap', add);
})();
