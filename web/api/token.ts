/** The token of this tab. It is in the session storage, so the browser forgets it with the tab. */
const KEY = 'ductile.token';

export type Reason = 'asked' | 'expired';

let tokenListener: ((reason: Reason | undefined) => void) | undefined;

export function readToken(): string | undefined {
  return sessionStorage.getItem(KEY) ?? undefined;
}

export function signIn(token: string): void {
  sessionStorage.setItem(KEY, token);
  tokenListener?.(undefined);
}

export function signOut(reason: Reason): void {
  if (readToken() === undefined) return;
  sessionStorage.removeItem(KEY);
  tokenListener?.(reason);
}

/** Calls the listener when the user signs in or out; a sign-out has a reason. */
export function onToken(listener: (reason: Reason | undefined) => void): void {
  tokenListener = listener;
}
