let text = '';
process.stdin.on('data', (chunk) => (text += chunk));
process.stdin.on('end', () => {
  JSON.parse(text);
  process.stdout.write('{"status":"ok","result":"ok"}\n');
});
