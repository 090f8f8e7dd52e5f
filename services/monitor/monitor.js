// A release that arrives while a page is open appears by itself: the page's main part is fetched anew.
"use strict";
(() => {
  if (!document.body.dataset.head && !document.body.dataset.live) return;
  const say = (words) => { document.getElementById("live").textContent = words; };
  const open = () => new Set([...document.querySelectorAll("details[open] > summary")].map((s, i) => s.textContent + i));
  const refresh = async (head) => {
    const answer = await fetch(location.href, { cache: "no-cache" });
    if (!answer.ok) return;
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const main = document.getElementById("main");
    if (main.contains(document.activeElement) && document.activeElement.closest("form")) {
      say("Something new is here; reload the page to see it.");
      return;
    }
    const unfolded = open();
    main.replaceChildren(...page.getElementById("main").childNodes);
    [...document.querySelectorAll("details > summary")].forEach((s, i) => { if (unfolded.has(s.textContent + i)) s.parentElement.open = true; });
    document.body.dataset.head = head;
    say("Something new is here; this page shows it.");
  };
  let silent = false;
  const events = new EventSource(`${document.body.dataset.root}/events`);
  events.addEventListener("head", (event) => {
    const { head, answers } = JSON.parse(event.data);
    if (answers === false) say("The public log does not answer now; this page shows what was read and checked before.");
    else if (silent) say("The public log answers again.");
    silent = answers === false;
    if (head !== document.body.dataset.head) refresh(head).catch(() => {});
  });
})();
