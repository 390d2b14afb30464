import { useState } from 'preact/hooks';
import { signIn, type Reason } from './api/token.ts';

/** Form for a token. A first request shows whether the token is valid. */
export function Login({ reason }: { readonly reason: Reason | undefined }) {
  const [token, setToken] = useState('');
  const [problem, setProblem] = useState(
    reason === 'expired' ? 'Your token has expired or was revoked.' : '',
  );
  const [isBusy, setBusy] = useState(false);
  const enter = async (event: Event): Promise<void> => {
    event.preventDefault();
    setBusy(true);
    setProblem((await tryToken(token.trim())) ?? '');
    setBusy(false);
  };
  return (
    <main class="login">
      <form onSubmit={(event) => void enter(event)}>
        <img src={document.querySelector('link[rel=icon]')?.getAttribute('href') ?? ''} alt="" />
        <h1>Ductile</h1>
        <label for="token">Token</label>
        <input
          id="token"
          type="password"
          autocomplete="off"
          spellcheck={false}
          required
          autofocus
          aria-describedby="token-about"
          value={token}
          onInput={(event) => setToken(event.currentTarget.value)}
        />
        {problem !== '' && (
          <p class="wrong" role="alert">
            {problem}
          </p>
        )}
        <button class="main" disabled={isBusy || token.trim() === ''}>
          Sign in
        </button>
        <p id="token-about" class="about">
          The token stays in this tab. The browser forgets it when you close the tab. Create a
          token:
          <code>ductile token create dashboard --role admin</code>
        </p>
      </form>
    </main>
  );
}

/** Signs in if the service accepts the token, or returns the problem. Any response but 401 or 429 is enough. */
async function tryToken(token: string): Promise<string | undefined> {
  if (!/^[\x21-\x7e]+$/.test(token)) {
    return 'Invalid token: tokens contain only ASCII characters, without spaces.';
  }
  try {
    const response = await fetch('/jobs?limit=1', {
      cache: 'no-store',
      credentials: 'omit',
      headers: { accept: 'application/json', authorization: `Bearer ${token}` },
    });
    if (response.status === 401) return 'Invalid token.';
    if (response.status === 429) return 'Too many wrong tokens. Try again in a minute.';
    signIn(token);
    return undefined;
  } catch {
    return "Can't reach the service.";
  }
}
