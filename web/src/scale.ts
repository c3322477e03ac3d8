// Where numbers lie along an axis.

// The largest value; undefined of none.
export function max<T>(items: T[], of: (item: T) => number | undefined):
    number | undefined {
  const values = items.flatMap((item) => of(item) ?? []);
  return values.length > 0 ? Math.max(...values) : undefined;
}

// From low..high to from..to.
export function linear([low, high]: [number, number],
                       [from, to]: [number, number]): (x: number) => number {
  return (x) => from + (x - low) / (high - low) * (to - from);
}

// 1, 2 or 5 times a power of ten, about `count` times in the span.
export function stepOf(span: number, count: number): number {
  const power = 10 ** Math.floor(Math.log10(span / count));
  const ratio = span / count / power;
  return power * (ratio >= Math.sqrt(50) ? 10 : ratio >= Math.sqrt(10) ? 5
    : ratio >= Math.SQRT2 ? 2 : 1);
}

// Its multiples from low to high, with the digits that it asks for.
export function ticks(low: number, high: number, count: number):
    {value: number; text: string}[] {
  const step = stepOf(high - low, count);
  const digits = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
  const list = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9;
    ++i) {
    const value = Number((i * step).toFixed(digits));
    list.push({value, text: (value < 0 ? '−' : '') +
      Math.abs(value).toFixed(digits)});
  }
  return list;
}
