// Numbers and tokens as people read them.

// ".87", "1.00", "−.12": a share.
export function share(value: number): string {
  if (!Number.isFinite(value)) return '–';
  const text = Math.abs(value).toFixed(2).replace(/^0/, '');
  return (value < 0 && Number(text) !== 0 ? '−' : '') + text;
}

export function percent(value: number): string {
  return `${Math.round(100 * value)} %`;
}

// Three significant digits with a sign: "+0.0123".
export function signed(value: number): string {
  if (!Number.isFinite(value)) return '–';
  if (value === 0) return '0';
  const size = Math.abs(value);
  const text = size >= 1e-4 && size < 1e5
    ? size.toPrecision(size >= 0.001 ? 3 : 2) : size.toExponential(1);
  return (value < 0 ? '−' : '+') + text;
}

export function number(value: number, digits = 2): string {
  if (!Number.isFinite(value)) return '–';
  return (value < 0 ? '−' : '') + Math.abs(value).toFixed(digits);
}

export function integer(value: number): string {
  return Math.round(value).toString().replace(/\B(?=(\d{3})+$)/g, ' ');
}

// 5795072 → "5.8 M"
export function short(value: number): string {
  const units = ['', ' k', ' M', ' G', ' T'];
  let unit = 0;
  while (value >= 999.5 && unit + 1 < units.length) {
    value /= 1000;
    ++unit;
  }
  return (unit === 0 ? String(Math.round(value)) : value.toPrecision(3)) +
    units[unit];
}

// ".87 (.85 to .89)"
export function interval(mean: number, low?: number, high?: number,
                         write: (value: number) => string = share): string {
  if (low === undefined || high === undefined) return write(mean);
  return `${write(mean)} (${write(low)} to ${write(high)})`;
}

const controls = /[\u0000-\u001f\u007f-\u009f\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]/g;

// A token for the eye: what has no shape gets one.
export function shown(token: string): string {
  if (token === '') return '∅';
  const visible = token.replace(/\r?\n/g, '⏎').replace(/\t/g, '⇥')
    .replace(controls, (c) => 'U+' +
      c.charCodeAt(0).toString(16).toUpperCase().padStart(4, '0'));
  return /^ +$/.test(visible) ? '␣'.repeat(visible.length) : visible;
}

// The same with spaces around it marked, where it stands alone.
export function alone(token: string): string {
  return shown(token).replace(/^ /, '␣').replace(/ $/, '␣');
}

export function plural(count: number, one: string, many = one + 's'): string {
  return `${integer(count)} ${count === 1 ? one : many}`;
}
