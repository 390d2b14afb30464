#!/usr/bin/env node
'use strict';
// Old syntax on purpose, see floor.cjs. On a Node that is too old, this starts a newer one that is
// installed beside this package, or prints one line with instructions.

var nodeModule = require('module');
var path = require('path');
var floor = require('./floor.cjs');
var manifest = require('../package.json');

var root = path.dirname(__dirname);

refuseInspector();

if (process.argv.length === 3 && /^(-V|--version)$/.test(process.argv[2])) {
  // Works on every Node, without loading the program.
  process.stdout.write(manifest.version + '\n');
} else if (floor.complain() === undefined) {
  runHere();
} else {
  handOver(findRuntime());
}

// SIGUSR1 opens Node's inspector on the loopback address, where any local process can use it. A handler
// takes the signal's place even if Node was started without --disable-sigusr1, and keeps the process
// alive with it. An inspector that the signal opened before this line is closed.
function refuseInspector() {
  if (process.platform === 'win32') return;
  process.on('SIGUSR1', function () {});
  var options = process.execArgv.concat(process.env.NODE_OPTIONS || '').join(' ');
  if (/--(inspect|disable-sigusr1)/.test(options)) return;
  var inspector = require('inspector');
  if (inspector.url() !== undefined) inspector.close();
}

function runHere() {
  // Beside the program and not in the shared temporary directory: who can write there already owns
  // the program. Where it is not writable there is just no cache.
  nodeModule.enableCompileCache(path.join(root, 'build', 'compile-cache'));
  nodeModule.createRequire(__filename)('../dist/main.cjs');
}

function findRuntime() {
  try {
    var runtime = require.resolve(floor.runtimePackage() + '/package.json');
    return path.join(
      path.dirname(runtime),
      'bin',
      process.platform === 'win32' ? 'node.exe' : 'node',
    );
  } catch {
    return undefined;
  }
}

function handOver(node) {
  if (node === undefined) {
    console.error(floor.complain());
    process.exitCode = 1;
    return;
  }
  var child = require('child_process').spawn(
    node,
    ['--disable-sigusr1', __filename].concat(process.argv.slice(2)),
    { stdio: 'inherit' },
  );
  ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT', 'SIGUSR2'].forEach(function (signal) {
    process.on(signal, function () {
      // A key such as Ctrl-C at a terminal signals the whole foreground group, including the child.
      var isTyped = process.stdin.isTTY && (signal === 'SIGINT' || signal === 'SIGQUIT');
      if (!isTyped) child.kill(signal);
    });
  });
  child.on('error', function (error) {
    console.error('ductile: cannot run ' + node + ': ' + error.message);
    process.exitCode = 1;
  });
  child.on('exit', function (code, signal) {
    if (signal === null) process.exit(code);
    process.removeAllListeners(signal);
    process.kill(process.pid, signal);
  });
}
