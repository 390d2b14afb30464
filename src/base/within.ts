/** Whether the work is over within this time; it goes on either way. */
export async function settlesWithin(work: Promise<void>, ms: number): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<boolean>((resolve) => {
    timer = setTimeout(() => resolve(false), ms);
  });
  const result = await Promise.race([work.then(() => true), late]);
  clearTimeout(timer);
  return result;
}
