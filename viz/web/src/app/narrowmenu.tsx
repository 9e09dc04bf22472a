import { openExports } from '../exports/exports';
import { toPage } from '../shared/address/model/trail';
import { go } from '../shared/address/address';
import { Menu, type MenuItem } from '../shared/parts/menu';
import { isReport } from '../shared/api/report';
import { helpOpen } from '../shared/session/page';
import { canPause, paused, togglePause } from '../shared/session/session';
import { appearance, APPEARANCES, choose } from '../shared/session/theme';
import { copyLink } from './crumbs';
import { offered } from './offered';
import { focusSearch } from './search';

/** All that the bars of a wide window have, as one menu: a phone has room for one line. */
export function NarrowMenu() {
  return (
    <span class="narrow-menu">
      <Menu label="Pages and actions" text="☰" items={items} quiet={false} />
    </span>
  );
}

function items(): MenuItem[] {
  return [
    ...offered.value.map(([page, text, title]) => ({ text, title, act: () => go(toPage(page)) })),
    { text: 'Find…', act: focusSearch },
    ...(paused.value || canPause.value ? [{ text: paused.value ? 'Resume' : 'Pause', act: togglePause }] : []),
    ...(isReport ? [] : [{ text: 'Export', act: openExports }]),
    { text: 'Copy link', act: copyLink },
    ...APPEARANCES.filter((one) => one !== 'projector' && one !== appearance.value).map((one) => ({ text: `Appearance: ${one}`, act: () => choose(one) })),
    { text: 'Keys, marks and settings', act: () => (helpOpen.value = true) },
  ];
}
