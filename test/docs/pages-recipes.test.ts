import { testPages } from '../support/page-test.ts';

testPages('docs/recipes/**/*.md');
