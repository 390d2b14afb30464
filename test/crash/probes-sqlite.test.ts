import { testProbes } from './support/probes.ts';

testProbes('sqlite');
