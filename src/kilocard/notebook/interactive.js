function kilocardBar(root) {
  const data = JSON.parse(root.querySelector(".kc-data").textContent);
  const inputs = [...root.querySelectorAll("input[type=range]")];
  const bar = root.querySelector(".kc-bar"), readout = root.querySelector(".kc-readout");
  root.querySelector(".kc-controls").style.cssText =
    "display:grid;grid-template-columns:minmax(8.5rem,auto) 1fr;gap:.35rem .8rem;align-items:center";
  bar.style.cssText = "position:relative;display:flex;height:2.4rem;margin:.8rem 0 .4rem;" +
    "border:1px solid var(--kc-faint,#8b949e);border-radius:4px;overflow:hidden";
  root.querySelector(".kc-legend").innerHTML = data.segments.map(([name, colour]) =>
    `<span style="display:inline-block;margin-right:1rem"><span style="display:inline-block;width:.8em;` +
    `height:.8em;background:${colour};margin-right:.35em"></span>${name}</span>`).join("") +
    `<span style="display:inline-block">&#9475; ${data.limitName}</span>`;
  root.querySelector(".kc-legend").style.cssText = "font-size:.85em";
  readout.style.cssText = "margin:.4rem 0 0;min-height:3em";
  function draw() {
    const labels = inputs.map((input) => JSON.parse(input.dataset.stops)[+input.value]);
    inputs.forEach((input, i) => {
      input.style.width = "100%";
      input.setAttribute("aria-valuetext", labels[i]);
      root.querySelector(`output[for="${input.id}"]`).textContent = labels[i];
    });
    const [values, text] = data.frames[inputs.map((input) => input.value).join("-")];
    bar.innerHTML = values.map((value, i) =>
      `<span style="flex:none;width:${100 * value / data.scale}%;background:${data.segments[i][1]}"></span>`).join("") +
      `<span style="position:absolute;top:0;bottom:0;left:${100 * data.limit / data.scale}%;` +
      `border-left:3px solid var(--kc-ink,#1f2328)"></span>` +
      (values.reduce((sum, value) => sum + value, 0) > data.scale ? `<span style="position:absolute;right:0;top:0;` +
      `bottom:0;padding:.35rem .4rem;background:var(--kc-refused,#c0392b);color:#fff">&raquo;</span>` : "");
    bar.setAttribute("aria-label", values.map((value, i) =>
      `${data.segments[i][0]} ${value} ${data.unit}`).join(", ") + `; limit ${data.limit} ${data.unit}`);
    readout.textContent = text;
  }
  inputs.forEach((input) => input.addEventListener("input", draw));
  draw();
}
