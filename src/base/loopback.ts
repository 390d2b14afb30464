/** Whatever it listens on, from here it is reached over loopback. */
export function toLoopback(url: string): string {
  return url.replace('//0.0.0.0:', '//127.0.0.1:').replace('//[::]:', '//[::1]:');
}
