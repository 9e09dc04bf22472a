// What a page does wrong for those who do not see it, see it otherwise, or use no mouse: a list of sentences.
() => {
  const wrong = [];
  const tell = (what, element) => wrong.push(`${what}: ${element.outerHTML.replace(/\s+/g, ' ').slice(0, 160)}`);
  const all = (selector) => [...document.querySelectorAll(selector)];
  const isShown = (element) => element.checkVisibility({ visibilityProperty: true, opacityProperty: true }) && !element.closest('.hidden');

  // Names.
  const nameOf = (element) => {
    const ids = (element.getAttribute('aria-labelledby') ?? '').split(' ').filter(Boolean);
    const labelled = ids.map((id) => document.getElementById(id)?.textContent ?? '').join(' ');
    const inner = element.matches('input, select, textarea') ? '' : element.innerText;
    const labels = [...(element.labels ?? [])].map((label) => label.innerText).join(' ');
    return [labelled, element.getAttribute('aria-label'), inner, labels].join(' ').trim();
  };
  const interactive = 'a[href], button, input, select, textarea, summary, [tabindex="0"], [role=application], [role=combobox], [role=option], [role=menuitem]';
  for (const element of all(interactive)) {
    const isScroller = element.matches('.panel-body, .scroll');
    if (isShown(element) && !isScroller && !/[\p{L}\p{N}?]/u.test(nameOf(element))) tell('has no name', element);
  }
  for (const element of all('[aria-labelledby], [aria-controls], [aria-activedescendant]')) {
    for (const name of ['aria-labelledby', 'aria-controls', 'aria-activedescendant']) {
      for (const id of (element.getAttribute(name) ?? '').split(' ').filter(Boolean)) {
        if (!document.getElementById(id)) tell(`${name} names what is not there`, element);
      }
    }
  }
  const ids = all('[id]').map((element) => element.id);
  for (const id of new Set(ids.filter((id, at) => ids.indexOf(id) !== at))) wrong.push(`two elements have the id ${id}`);

  // Order.
  for (const element of all('[tabindex]')) if (element.tabIndex > 0) tell('is before its turn', element);
  const headings = all('h1, h2, h3, h4').filter((element) => !element.closest('dialog:not([open])'));
  let level = 0;
  for (const heading of headings) {
    const next = Number(heading.tagName[1]);
    if (next > level + 1) tell(`heading of level ${next} after one of level ${level}`, heading);
    level = next;
  }
  if (headings.filter((heading) => heading.tagName === 'H1').length !== 1) wrong.push('there is not one first heading');
  for (const landmark of ['main', 'header', 'nav[aria-label]']) if (all(landmark).length === 0) wrong.push(`there is no ${landmark}`);
  if (document.documentElement.lang === '') wrong.push('the language is not told');
  if (all('[aria-live=polite]').length === 0) wrong.push('nothing is read out');

  // Charts.
  for (const panel of all('figure.panel')) {
    if (panel.querySelector('h2')?.textContent.trim() === '') tell('panel without title', panel);
    if ((panel.querySelector('figcaption > .hidden')?.textContent ?? '').trim() === '') tell('panel without summary', panel);
    const isChart = panel.querySelector('[role=application], canvas, svg:not(.mark)') !== null;
    if (isChart && panel.dataset.twin !== 'yes') tell('chart without a table behind it', panel);
  }
  for (const chart of all('[role=application]')) {
    if (!chart.getAttribute('aria-roledescription')) tell('chart that does not say what it is', chart);
    if (chart.tabIndex !== 0) tell('chart that takes no focus', chart);
    if (!chart.closest('figure')) tell('chart outside of a figure', chart);
  }
  for (const picture of all('canvas, svg')) if (!picture.closest('[aria-hidden=true]') && !picture.getAttribute('aria-label')) tell('picture that is neither named nor hidden', picture);
  for (const row of all('tr')) if (row.onclick && row.tabIndex < 0 && !row.querySelector('a, button')) tell('row for the mouse alone', row);

  // Contrast of text as it is drawn.
  const parse = (colour) => {
    const [r = 0, g = 0, b = 0, a = 1] = (colour.match(/[\d.]+/g) ?? []).map(Number);
    return { r, g, b, a };
  };
  const over = (top, below) => ({ r: top.r * top.a + below.r * (1 - top.a), g: top.g * top.a + below.g * (1 - top.a), b: top.b * top.a + below.b * (1 - top.a), a: 1 });
  const groundOf = (element) => {
    const grounds = [];
    for (let at = element; at; at = at.parentElement) {
      const { backgroundColor, opacity } = getComputedStyle(at);
      const ground = parse(backgroundColor);
      grounds.push({ ...ground, a: ground.a * Number(opacity) });
      if (ground.a === 1) break;
    }
    return grounds.reduceRight((below, top) => over(top, below), parse(getComputedStyle(document.documentElement).backgroundColor));
  };
  const luminance = ({ r, g, b }) => {
    const [x, y, z] = [r, g, b].map((value) => (value / 255 <= 0.04045 ? value / 255 / 12.92 : ((value / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * x + 0.7152 * y + 0.0722 * z;
  };
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const seen = new Set();
  for (let node = texts.nextNode(); node; node = texts.nextNode()) {
    const element = node.parentElement;
    if (!/[\p{L}\p{N}]/u.test(node.data) || seen.has(element) || !isShown(element) || element.closest(':disabled, noscript, option')) continue;
    seen.add(element);
    const style = getComputedStyle(element);
    const ground = groundOf(element);
    const ink = over(parse(element instanceof SVGElement ? style.fill : style.color), ground);
    const [low, high] = [luminance(ink), luminance(ground)].sort((a, b) => a - b);
    const contrast = (high + 0.05) / (low + 0.05);
    const isLarge = parseFloat(style.fontSize) >= 24 || (parseFloat(style.fontSize) >= 18.66 && Number(style.fontWeight) >= 700);
    if (contrast < (isLarge ? 3 : 4.5)) tell(`contrast ${contrast.toFixed(2)} of “${node.data.trim().slice(0, 30)}”`, element);
  }
  return wrong;
}
