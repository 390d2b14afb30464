import { testPages } from '../support/page-test.ts';

testPages('docs/get-started/**/*.md');
