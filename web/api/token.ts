/** The token of this tab. It is in the memory of the browser's session only: closing the tab forgets it. */
const KEY = 'ductile.token';

export type Reason = 'asked' | 'expired';

let told: ((reason: Reason | undefined) => void) | undefined;

export function readToken(): string | undefined {
  return sessionStorage.getItem(KEY) ?? undefined;
}

export function signIn(token: string): void {
  sessionStorage.setItem(KEY, token);
  told?.(undefined);
}

export function signOut(reason: Reason): void {
  if (readToken() === undefined) return;
  sessionStorage.removeItem(KEY);
  told?.(reason);
}

/** Tells of every change; a reason when somebody has left. */
export function onToken(listener: (reason: Reason | undefined) => void): void {
  told = listener;
}
