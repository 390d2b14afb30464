export type Theme = 'auto' | 'light' | 'dark';

const KEY = 'ductile.theme';
const order: readonly Theme[] = ['auto', 'light', 'dark'];

export function readTheme(): Theme {
  const stored = localStorage.getItem(KEY);
  return order.find((theme) => theme === stored) ?? 'auto';
}

export function setTheme(theme: Theme): void {
  localStorage.setItem(KEY, theme);
  applyTheme();
}

export function applyTheme(): void {
  document.documentElement.dataset['theme'] = readTheme();
}

export function nextTheme(theme: Theme): Theme {
  return order[(order.indexOf(theme) + 1) % order.length] ?? 'auto';
}
