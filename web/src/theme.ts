// Light or dark: as the reader's system prefers, until the switch is used.
import {h} from './dom';

const key = 'headwise-theme';
const dark = matchMedia('(prefers-color-scheme: dark)');

// Pages from disk may have no storage.
function stored(): string | null {
  try {
    return localStorage.getItem(key);
  } catch {
    return null;
  }
}

export function themeSwitch(): HTMLElement {
  let chosen = stored();
  const button = h('button', {type: 'button', class: 'theme'});
  const apply = (): void => {
    const theme = chosen ?? (dark.matches ? 'dark' : 'light');
    document.documentElement.dataset.theme = theme;
    button.textContent = theme === 'dark' ? '☀ Light' : '☾ Dark';
    button.setAttribute('aria-label',
      `Switch to ${theme === 'dark' ? 'light' : 'dark'} colours`);
  };
  button.addEventListener('click', () => {
    chosen = document.documentElement.dataset.theme === 'dark'
      ? 'light' : 'dark';
    try {
      localStorage.setItem(key, chosen);
    } catch {
      // Then the choice lasts as long as the page.
    }
    apply();
  });
  dark.addEventListener('change', apply);
  // Paper is light.
  addEventListener('beforeprint',
    () => { document.documentElement.dataset.theme = 'light'; });
  addEventListener('afterprint', apply);
  apply();
  return button;
}
