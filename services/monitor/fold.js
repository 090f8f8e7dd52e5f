// On a phone the sections of a page begin closed; an address of one opens it.
if (matchMedia("(max-width: 600px)").matches && !location.hash) {
  for (const section of document.querySelectorAll("details.card")) section.open = false;
}
