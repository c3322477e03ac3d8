// Ways to a head: a link to its card, and marks of drawings that show it in
// place.
import {h} from '../dom';
import type {Selection} from '../state';
import {addressOf} from '../state';

// The browser goes to the card by the address; Back returns.
export function headLink(id: string, text = id,
                         attributes: Record<string, string> = {}):
    HTMLElement {
  return h('a', {
    class: 'link', href: addressOf(id), 'aria-label': `Show head ${id}`,
    ...attributes,
  }, text);
}

// What makes a mark of a drawing a button that stands for a head.
export function markOf(id: string, selection: Selection):
    Record<string, string | number | ((event: never) => void)> {
  return {
    role: 'button', tabindex: -1, 'data-head': id,
    click: (event: Event) => selection.glance(id,
      event.currentTarget as Element),
    keydown: (event: KeyboardEvent) => {
      if (event.key !== 'Enter' && event.key !== ' ') return;
      event.preventDefault();
      selection.glance(id, event.currentTarget as Element);
    },
  };
}
