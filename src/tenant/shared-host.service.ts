import type { Host, RunOptions } from '../plugin/process.ts';

/**
 * Wraps the plugin host of the process for one tenant, which neither starts nor stops it. If the tenant
 * fails to renew its deadline, only its own attempts are ended.
 */
export function makeSharedHost(host: Host): Host {
  let fence = new AbortController();
  let timer: NodeJS.Timeout | undefined;
  const fenced = <T extends RunOptions>(options: T | undefined): T & RunOptions => {
    const { signal } = options ?? {};
    const both = signal === undefined ? fence.signal : AbortSignal.any([signal, fence.signal]);
    return { ...(options as T), signal: both };
  };
  return {
    get kind() {
      return host.kind;
    },
    start: () => Promise.resolve(),
    run: (spec, request, options) => host.run(spec, request, fenced(options)),
    hold(spec) {
      const held = host.hold(spec);
      return { ...held, feed: (request, options) => held.feed(request, fenced(options)) };
    },
    renew(ms) {
      clearTimeout(timer);
      if (fence.signal.aborted) fence = new AbortController();
      timer = setTimeout(() => fence.abort('shutdown'), ms).unref();
    },
    stop() {
      clearTimeout(timer);
      return Promise.resolve();
    },
  };
}
