import { useEffect, useState } from 'preact/hooks';
import { startLive, stopLive } from './api/live.ts';
import { onToken, readToken, type Reason } from './api/token.ts';
import { Login } from './login.tsx';
import { pageOf } from './pages.tsx';
import { Shell } from './shell.tsx';
import { useRoute } from './ui/navigate.ts';
import { Overlay } from './ui/overlay.tsx';

/** Shows the login, or the page of the current address. */
export function App() {
  const route = useRoute();
  const [token, setToken] = useState(readToken);
  const [reason, setReason] = useState<Reason>();
  onToken((why) => {
    setReason(why);
    setToken(readToken());
  });
  useEffect(() => {
    if (token === undefined) stopLive();
    else startLive();
  }, [token]);
  if (token === undefined) return <Login key={reason ?? ''} reason={reason} />;
  const { Page, title } = pageOf(route);
  document.title = `${title} · Ductile`;
  return (
    <Shell route={route}>
      <Page key={`${route.page} ${route.id ?? ''}`} route={route} />
      <Overlay />
    </Shell>
  );
}
