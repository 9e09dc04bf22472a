// What a chart does wrong for those who do not see it, see it otherwise, or use no mouse: a list of sentences.
// What any page can do wrong is axe-core's to find.
() => {
  const wrong = [];
  const report = (what, element) => wrong.push(`${what}: ${element.outerHTML.replace(/\s+/g, ' ').slice(0, 160)}`);
  const all = (selector) => [...document.querySelectorAll(selector)];
  if (all('[aria-live=polite]').length === 0) wrong.push('nothing is read out');
  for (const panel of all('figure.panel')) {
    if (panel.querySelector('h2')?.textContent.trim() === '') report('panel without title', panel);
    if ((panel.querySelector('figcaption > .hidden')?.textContent ?? '').trim() === '') report('panel without summary', panel);
    const isChart = panel.querySelector('[role=application], canvas, svg:not(.mark)') !== null;
    const hasTable = panel.dataset.twin === 'yes' || panel.querySelector('table') !== null;
    if (isChart && !hasTable) report('chart without a table behind or beside it', panel);
  }
  for (const chart of all('[role=application]')) {
    if (!chart.getAttribute('aria-roledescription')) report('chart that does not say what it is', chart);
    if (chart.tabIndex !== 0) report('chart that takes no focus', chart);
    if (!chart.closest('figure')) report('chart outside of a figure', chart);
  }
  for (const picture of all('canvas, svg')) if (!picture.closest('[aria-hidden=true]') && !picture.getAttribute('aria-label')) report('picture that is neither named nor hidden', picture);
  for (const row of all('tr')) if (row.onclick && row.tabIndex < 0 && !row.querySelector('a, button')) report('row for the mouse alone', row);
  return wrong;
}
