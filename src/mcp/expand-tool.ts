import type { ToolDescription } from './tool.ts';

export const EXPAND = 'expand';

/** The one tool that is no operation: it is about answers. */
export const expandTool: ToolDescription = {
  name: EXPAND,
  description:
    'Show more of an answer that was cut to its budget. ' +
    'Handles stand in `cut`; they are good for a while, for you alone.',
  inputSchema: {
    type: 'object',
    properties: {
      handle: { type: 'string', description: 'as it stands in `cut` of an earlier answer' },
      from: {
        type: 'integer',
        minimum: 0,
        description: 'entries, or characters of a text, to leave out: `next` of the answer before',
      },
      budget: { type: 'integer', description: 'bytes of the result at most' },
    },
    required: ['handle'],
    additionalProperties: false,
  },
  annotations: {
    readOnlyHint: true,
    openWorldHint: false,
  },
};
