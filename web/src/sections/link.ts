// A button that shows a head in the card and goes there.
import {h} from '../dom';
import type {Selection} from '../state';

export function goTo(id: string, selection: Selection): void {
  selection.select(id);
  const title = document.getElementById('card-title');
  if (title === null) return;
  title.tabIndex = -1;
  title.focus({preventScroll: true});
  const calm = matchMedia('(prefers-reduced-motion: reduce)').matches;
  title.scrollIntoView({behavior: calm ? 'auto' : 'smooth', block: 'center'});
}

export function headLink(id: string, selection: Selection): HTMLElement {
  return h('button', {
    type: 'button', class: 'link', 'aria-label': `Show head ${id}`,
    click: () => goTo(id, selection),
  }, id);
}
