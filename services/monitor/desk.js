// The desk follows every change: the form is sent, and the drawn page takes the place of the shown.
"use strict";
const main = document.querySelector("main");
let sent = 0;
main.addEventListener("change", async () => {
  const number = ++sent;
  const form = document.querySelector("form");
  if (form === null) return;
  const answer = await fetch("/", { method: "POST", body: new URLSearchParams(new FormData(form)) });
  const text = await answer.text();
  if (!answer.ok || number !== sent) return;
  const next = new DOMParser().parseFromString(text, "text/html").querySelector("main");
  const focused = document.activeElement?.name;
  const typed = document.activeElement?.value;
  main.replaceChildren(...next.childNodes);
  const field = focused && main.querySelector(`[name="${CSS.escape(focused)}"]`);
  if (field) {
    if (field.tagName === "INPUT") field.value = typed;
    field.focus();
  }
});
