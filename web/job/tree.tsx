import type { Output } from '../api/types.ts';
import { link } from '../route.ts';
import { Card } from '../ui/parts.tsx';
import { Status } from '../ui/status.tsx';
import { Text } from '../ui/text.tsx';
import { useCall } from '../ui/use-call.ts';

type Node = Output<'job.tree'>['jobs'][number];

const DEPTH_MAX = 8;

/** Tree of the jobs that caused a job or followed from it. Renders nothing for a single job. */
export function JobTree({ id, stamp }: { readonly id: string; readonly stamp: string }) {
  // The tree changes together with the job, so it is reloaded only while the job runs.
  const { data } = useCall('job.tree', { id }, stamp.startsWith('running') ? ['job.'] : []);
  if (data === undefined || data.jobs.length < 2) return null;
  return (
    <Card title="Chain">
      <ul class="chain">
        {data.jobs.map((node) => (
          <li key={node.job_id} class={`deep-${Math.min(node.depth, DEPTH_MAX)}`}>
            <TreeNode node={node} isHere={node.job_id === data.job_id} />
          </li>
        ))}
      </ul>
      {!data.complete && (
        <p class="soft pad">The chain is too large. Some of its jobs are not shown.</p>
      )}
    </Card>
  );
}

function TreeNode({ node, isHere }: { readonly node: Node; readonly isHere: boolean }) {
  const name = (
    <>
      <Text value={node.plugin} />{' '}
      <span class="soft">
        <Text value={node.command} />
      </span>
    </>
  );
  return (
    <>
      {isHere ? (
        <b aria-current="true">{name}</b>
      ) : (
        <a href={link('jobs', { id: node.job_id })}>{name}</a>
      )}
      <Status value={node.status} />
    </>
  );
}
