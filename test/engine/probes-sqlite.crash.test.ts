import { testProbes } from '../support/crash/probes.ts';

testProbes('sqlite');
