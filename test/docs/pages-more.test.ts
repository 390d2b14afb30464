import { testPages } from '../support/page-test.ts';

testPages('docs/{security,migrate,compare}/**/*.md');
testPages('docs/*.md');
