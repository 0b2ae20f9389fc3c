import { present } from '../../base/present.js'
import { runInSlices } from '../../base/cooperative.js'
import type { Baseline } from '../../records/baseline.js'
import { hashTree } from '../../tree/hash.js'
import type { RepairContext } from './context.js'
import type { LostPath } from './tree.js'

/**
 * Removes lost parts from the baselines of sessions. A baseline that several sessions share is processed
 * once.
 */
export class BaselineRepair {
  readonly #context: RepairContext
  readonly #mended = new Map<string, Promise<readonly [Baseline, readonly LostPath[]]>>()

  constructor(context: RepairContext) {
    this.#context = context
  }

  /** The remaining baseline, and its lost paths. */
  mended(baseline: Baseline): Promise<readonly [Baseline, readonly LostPath[]]> {
    const key = JSON.stringify([baseline.root, baseline.revision?.git?.root])
    let mended = this.#mended.get(key)
    if (mended === undefined) this.#mended.set(key, (mended = this.#mend(baseline)))
    return mended.then(([{ fingerprint, root, revision }, lost]) => {
      const git = baseline.revision?.git
      if (lost.length === 0) return [baseline, lost]
      const { root: gitRoot } = revision?.git ?? {}
      return [
        {
          ...baseline,
          fingerprint,
          root,
          ...(git !== undefined && {
            revision: {
              ...present(baseline.revision, 'the revision of a baseline'),
              git: {
                commitId: git.commitId,
                treeId: git.treeId,
                ...(gitRoot !== undefined && { root: gitRoot }),
              },
            },
          }),
        },
        lost,
      ]
    })
  }

  async #mend(baseline: Baseline): Promise<readonly [Baseline, readonly LostPath[]]> {
    const { mender, roots, contentIds, environment } = this.#context
    const { root, lost } = await mender.mend(roots.load(baseline.root))
    const gitRoot = baseline.revision?.git?.root
    const git = gitRoot && (await mender.mend(roots.load(gitRoot)))
    const allLost = [...lost, ...(git?.lost ?? [])]
    if (allLost.length === 0) return [baseline, allLost]
    const revision = baseline.revision && {
      ...baseline.revision,
      ...(git !== undefined && {
        git: {
          ...present(baseline.revision.git, 'the git revision of a baseline'),
          root: await roots.save(git.root),
        },
      }),
    }
    const saved = await roots.save(root)
    const fingerprint =
      lost.length === 0
        ? baseline.fingerprint
        : await runInSlices(hashTree(root, contentIds, mender.loader), environment)
    return [{ fingerprint, root: saved, ...(revision !== undefined && { revision }) }, allLost]
  }
}
