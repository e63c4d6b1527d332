// A page in a hidden tab does not read itself again; it does as soon as it is shown.
document.addEventListener('htmx:before:request', (event) => {
  if (document.hidden && event.target instanceof Element && event.target.hasAttribute('data-live'))
    event.preventDefault()
})
