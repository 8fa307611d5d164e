// Above the gallery's cards: three choices, which leave those that all of them accept.
const cards = [...document.querySelectorAll(".gallery-card")];
const statuses = [["holds", "shown"], ["holds for one seed", "shown of one seed"],
  ["does not hold", "not shown"], ["open", "undecided"], ["cannot be judged", "condition not met"],
  "measured", "not run"];
const choices = {
  work: [["all", ""], ...new Set(cards.map((card) => card.dataset.paper))],
  "status of a claim": [["any", ""], ...statuses],
  takes: [["any time", ""], ["under 1 min", 60], ["under 10 min", 600], ["under 1 h", 3600]],
};
if (cards.length) {
  const form = document.createElement("form");
  form.className = "gallery-filter";
  for (const [name, options] of Object.entries(choices)) {
    const select = document.createElement("select");
    options.forEach((option) => select.append(new Option(...[option, option].flat().slice(0, 2))));
    const label = document.createElement("label");
    label.append(name, " ", select);
    form.append(label);
  }
  const left = document.createElement("output");
  form.append(left);
  const show = () => {
    const [paper, status, seconds] = [...form.querySelectorAll("select")].map((s) => s.value);
    for (const card of cards) {
      const {dataset} = card;
      card.hidden = Boolean(paper && dataset.paper !== paper)
        || Boolean(status && !dataset.status.split("|").includes(status))
        || Boolean(seconds && !(Number(dataset.seconds) < Number(seconds)));
    }
    left.value = `${cards.filter((card) => !card.hidden).length} of ${cards.length}`;
  };
  form.addEventListener("change", show);
  show();
  document.querySelector(".gallery-cards").before(form);
}
