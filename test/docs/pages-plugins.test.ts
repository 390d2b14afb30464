import { testPages } from '../support/page-test.ts';

testPages('docs/plugins/**/*.md');
