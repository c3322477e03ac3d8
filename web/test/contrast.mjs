// Runs inside the page: every visible text whose contrast with its ground is
// below 4.5 (3 for large text), WCAG 2.1.
export function contrasts() {
  const canvas = document.createElement('canvas').getContext('2d',
    {willReadFrequently: true});
  canvas.canvas.width = canvas.canvas.height = 1;
  // Colours one over another, the lowest first, as the screen mixes them.
  const mixed = (layers) => {
    canvas.fillStyle = '#fff';
    canvas.fillRect(0, 0, 1, 1);
    for (const colour of layers) {
      canvas.fillStyle = colour;
      canvas.fillRect(0, 0, 1, 1);
    }
    return [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3);
  };
  const luminance = (rgb) => {
    const [r, g, b] = rgb.map((c) => {
      const s = c / 255;
      return s <= 0.04045 ? s / 12.92 : ((s + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const seen = new Map();
  const weak = new Set();
  for (const element of document.querySelectorAll('#page *')) {
    const own = [...element.childNodes].some((node) => node.nodeType === 3 &&
      node.textContent.trim() !== '');
    if (!own || !element.checkVisibility({checkVisibilityCSS: true})) continue;
    if (element.closest('.visually-hidden, .skip, :disabled')) continue;
    const style = getComputedStyle(element);
    const svg = element.namespaceURI.endsWith('svg');
    if (svg && element.tagName === 'title') continue;
    const grounds = [];
    let drawn = false;
    for (let at = element; at !== null; at = at.parentElement) {
      const ground = getComputedStyle(at);
      if (ground.backgroundImage !== 'none') drawn = true;
      grounds.unshift(ground.backgroundColor);
      // Text of a mark stands on the mark.
      const mark = svg && at.tagName === 'g' && at.querySelector(
        ':scope > circle');
      if (mark) grounds.unshift(getComputedStyle(mark).fill);
    }
    if (drawn) continue;
    const colour = svg ? style.fill : style.color;
    const size = parseFloat(style.fontSize);
    const large = size >= 24 || size >= 18.66 && Number(style.fontWeight) >= 700;
    const key = [colour, large, ...grounds].join();
    if (!seen.has(key)) {
      const ground = mixed(grounds);
      const [high, low] = [luminance(mixed([...grounds, colour])),
        luminance(ground)].sort((a, b) => b - a);
      seen.set(key, (high + 0.05) / (low + 0.05));
    }
    if (seen.get(key) < (large ? 3 : 4.5)) {
      weak.add(`${element.tagName}.${element.getAttribute('class') ?? ''} ${
        element.textContent.trim().slice(0, 20)} ${seen.get(key).toFixed(2)}`);
    }
  }
  return [...weak];
}
