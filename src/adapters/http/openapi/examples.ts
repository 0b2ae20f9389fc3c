import type { OperationExample } from './example.js'

/** What a handler was asked and answered, in this order: `npm run openapi` asks it again. */
export const examples: readonly OperationExample[] = [
  {
    operation: 'createSource',
    name: 'an uploaded snapshot',
    parameters: {},
    body: {
      displayName: 'App',
      uploadedSnapshot: {},
      labels: {
        team: 'web',
      },
    },
    status: 200,
    response: {
      sourceId: '1kg9h1s000jzwf9p17hx51a1qa8qabewkvx7',
      displayName: 'App',
      kind: 'UNDERLAY_SOURCE_KIND_UPLOADED_SNAPSHOT',
      status: 'UNDERLAY_SOURCE_STATUS_READY',
      latestRevisionId: '',
      createdAt: '2026-01-31T08:00:01.000Z',
      updatedAt: '2026-01-31T08:00:01.000Z',
      createdByPrincipal: 'ann',
      labels: {
        team: 'web',
      },
    },
  },
  {
    operation: 'createSource',
    name: 'a git remote',
    parameters: {},
    body: {
      displayName: 'App on git',
      gitRemote: {
        remoteUrl: 'https://git.example.org/app.git',
        defaultRef: 'main',
        credentialsSecretId: '',
      },
    },
    status: 200,
    response: {
      sourceId: '1kg9h1sz80dxem5x9z752fc9cjn4ejdaq098',
      displayName: 'App on git',
      kind: 'UNDERLAY_SOURCE_KIND_GIT_REMOTE',
      status: 'UNDERLAY_SOURCE_STATUS_READY',
      latestRevisionId: '',
      createdAt: '2026-01-31T08:00:02.000Z',
      updatedAt: '2026-01-31T08:00:02.000Z',
      createdByPrincipal: 'ann',
      labels: {},
    },
  },
  {
    operation: 'startImport',
    name: 'an uploaded snapshot',
    parameters: {
      sourceId: '1kg9h1s000jzwf9p17hx51a1qa8qabewkvx7',
    },
    body: {
      uploadedSnapshot: {
        content:
          'H4sIAAAAAAAC/+3UMQ7CMAyF4cycwhJ7SUMEE0MlOrJwg6h0YGhaJang+KRMwE4R6v8ttuzB0/O5ro6nuugu6nt0trP2WbPPOm1f+mm+N0Yr0WoGY0wu5JNqmdZSDcNKYaFiaDadu/oixd/lf1u+57/U2hjyP4f2PvQhSdP7mMT5eGuDHMQaXgIAAAAAAAAAAAAAAMB/eAAMO/mbACgAAA==',
      },
    },
    status: 200,
    response: {
      jobId: '1kg9h1tyg0bac8t8rn8j4c4xwg57g7gnmhdj',
      sourceId: '1kg9h1s000jzwf9p17hx51a1qa8qabewkvx7',
      state: 'UNDERLAY_IMPORT_JOB_STATE_QUEUED',
      revisionId: '',
      createdAt: '2026-01-31T08:00:03.000Z',
      startedAt: '',
      completedAt: '',
      errorCode: '',
      errorMessage: '',
      bytesProcessed: '0',
      filesProcessed: '0',
      bytesTransferred: '0',
    },
  },
  {
    operation: 'getJob',
    name: 'a job that has ended',
    parameters: {
      sourceId: '1kg9h1s000jzwf9p17hx51a1qa8qabewkvx7',
      jobId: '1kg9h1tyg0bac8t8rn8j4c4xwg57g7gnmhdj',
    },
    status: 200,
    response: {
      jobId: '1kg9h1tyg0bac8t8rn8j4c4xwg57g7gnmhdj',
      sourceId: '1kg9h1s000jzwf9p17hx51a1qa8qabewkvx7',
      state: 'UNDERLAY_IMPORT_JOB_STATE_SUCCEEDED',
      revisionId: '14a761796ce99283a2b449d084160cfd3af0530ba51cffb08eeea23ac4b41bbb',
      createdAt: '2026-01-31T08:00:03.000Z',
      startedAt: '2026-01-31T08:00:03.000Z',
      completedAt: '2026-01-31T08:00:03.000Z',
      errorCode: '',
      errorMessage: '',
      bytesProcessed: '31',
      filesProcessed: '2',
      bytesTransferred: '160',
    },
  },
  {
    operation: 'startImport',
    name: 'a git remote',
    parameters: {
      sourceId: '1kg9h1sz80dxem5x9z752fc9cjn4ejdaq098',
    },
    body: {
      git: {
        gitRef: 'main',
      },
    },
    status: 200,
    response: {
      jobId: '1kg9h1vxr0kg6fqhkjh4rx8d11y2mdjhfk3n',
      sourceId: '1kg9h1sz80dxem5x9z752fc9cjn4ejdaq098',
      state: 'UNDERLAY_IMPORT_JOB_STATE_QUEUED',
      revisionId: '',
      createdAt: '2026-01-31T08:00:05.000Z',
      startedAt: '',
      completedAt: '',
      errorCode: '',
      errorMessage: '',
      bytesProcessed: '0',
      filesProcessed: '0',
      bytesTransferred: '0',
    },
  },
  {
    operation: 'abortJob',
    name: 'a job that runs',
    parameters: {
      sourceId: '1kg9h1sz80dxem5x9z752fc9cjn4ejdaq098',
      jobId: '1kg9h1vxr0kg6fqhkjh4rx8d11y2mdjhfk3n',
    },
    body: {},
    status: 200,
    response: {
      jobId: '1kg9h1vxr0kg6fqhkjh4rx8d11y2mdjhfk3n',
      sourceId: '1kg9h1sz80dxem5x9z752fc9cjn4ejdaq098',
      state: 'UNDERLAY_IMPORT_JOB_STATE_FAILED',
      revisionId: '',
      createdAt: '2026-01-31T08:00:05.000Z',
      startedAt: '2026-01-31T08:00:05.000Z',
      completedAt: '2026-01-31T08:00:06.000Z',
      errorCode: 'INTERRUPTED',
      errorMessage: 'the job was aborted',
      bytesProcessed: '0',
      filesProcessed: '0',
      bytesTransferred: '0',
    },
  },
  {
    operation: 'refreshSource',
    name: 'a git remote',
    parameters: {
      sourceId: '1kg9h1sz80dxem5x9z752fc9cjn4ejdaq098',
    },
    body: {
      gitRef: 'v2',
    },
    status: 200,
    response: {
      jobId: '1kg9h1wx00gvgk4c8zp8pvt8yc023ktf18y9',
      sourceId: '1kg9h1sz80dxem5x9z752fc9cjn4ejdaq098',
      state: 'UNDERLAY_IMPORT_JOB_STATE_QUEUED',
      revisionId: '',
      createdAt: '2026-01-31T08:00:07.000Z',
      startedAt: '',
      completedAt: '',
      errorCode: '',
      errorMessage: '',
      bytesProcessed: '0',
      filesProcessed: '0',
      bytesTransferred: '0',
    },
  },
  {
    operation: 'getSource',
    name: 'a source',
    parameters: {
      sourceId: '1kg9h1s000jzwf9p17hx51a1qa8qabewkvx7',
    },
    status: 200,
    response: {
      sourceId: '1kg9h1s000jzwf9p17hx51a1qa8qabewkvx7',
      displayName: 'App',
      kind: 'UNDERLAY_SOURCE_KIND_UPLOADED_SNAPSHOT',
      status: 'UNDERLAY_SOURCE_STATUS_READY',
      latestRevisionId: '14a761796ce99283a2b449d084160cfd3af0530ba51cffb08eeea23ac4b41bbb',
      createdAt: '2026-01-31T08:00:01.000Z',
      updatedAt: '2026-01-31T08:00:03.000Z',
      createdByPrincipal: 'ann',
      labels: {
        team: 'web',
      },
    },
  },
  {
    operation: 'listSources',
    name: 'those of a team',
    parameters: {
      filter: 'team=web',
      pageSize: 100,
    },
    status: 200,
    response: {
      sources: [
        {
          sourceId: '1kg9h1s000jzwf9p17hx51a1qa8qabewkvx7',
          displayName: 'App',
          kind: 'UNDERLAY_SOURCE_KIND_UPLOADED_SNAPSHOT',
          status: 'UNDERLAY_SOURCE_STATUS_READY',
          latestRevisionId: '14a761796ce99283a2b449d084160cfd3af0530ba51cffb08eeea23ac4b41bbb',
          createdAt: '2026-01-31T08:00:01.000Z',
          updatedAt: '2026-01-31T08:00:03.000Z',
          createdByPrincipal: 'ann',
          labels: {
            team: 'web',
          },
        },
      ],
      nextPageToken: '',
    },
  },
  {
    operation: 'createSession',
    name: 'on a source',
    parameters: {},
    body: {
      sourceRef: {
        sourceId: '1kg9h1s000jzwf9p17hx51a1qa8qabewkvx7',
        revisionId: '',
      },
      initialTags: {
        agent: 'coder-1',
        task: '512',
      },
    },
    status: 200,
    response: {
      id: '1kg9h1xw80rvvzn18jvsc0wh0ha6nhdeq9s3',
      baseFingerprint: '14a761796ce99283a2b449d084160cfd3af0530ba51cffb08eeea23ac4b41bbb',
      status: 'SESSION_STATUS_ACTIVE',
      tags: {
        agent: 'coder-1',
        task: '512',
      },
      createdAt: '2026-01-31T08:00:10.000Z',
      lastActivityAt: '2026-01-31T08:00:10.000Z',
      capabilities: {
        commit: true,
        approvals: true,
        annotations: true,
      },
    },
  },
  {
    operation: 'createSession',
    name: 'with files',
    parameters: {},
    body: {
      files: [
        {
          path: '/notes.md',
          content: 'dG8gZG8K',
        },
      ],
    },
    status: 200,
    response: {
      id: '1kg9h1yvg0s7w7hm2q6bgctxv3z571gqmd56',
      baseFingerprint: 'a1eaf2f16e9b99762ee4cdd1151c1833cd1aa6684688f4d57ff579fb93c38401',
      status: 'SESSION_STATUS_ACTIVE',
      tags: {},
      createdAt: '2026-01-31T08:00:11.000Z',
      lastActivityAt: '2026-01-31T08:00:11.000Z',
      capabilities: {
        commit: true,
        approvals: true,
        annotations: true,
      },
    },
  },
  {
    operation: 'getSession',
    name: 'a session',
    parameters: {
      sessionId: '1kg9h1xw80rvvzn18jvsc0wh0ha6nhdeq9s3',
    },
    status: 200,
    response: {
      id: '1kg9h1xw80rvvzn18jvsc0wh0ha6nhdeq9s3',
      baseFingerprint: '14a761796ce99283a2b449d084160cfd3af0530ba51cffb08eeea23ac4b41bbb',
      status: 'SESSION_STATUS_ACTIVE',
      tags: {
        agent: 'coder-1',
        task: '512',
      },
      createdAt: '2026-01-31T08:00:10.000Z',
      lastActivityAt: '2026-01-31T08:00:10.000Z',
      capabilities: {
        commit: true,
        approvals: true,
        annotations: true,
      },
    },
  },
  {
    operation: 'getSession',
    name: 'no such session',
    parameters: {
      sessionId: '000000000000000000000000000000000000',
    },
    status: 404,
    response: {
      code: 5,
      message: 'there is no session "000000000000000000000000000000000000"; it may have been deleted',
      details: [
        {
          '@type': 'type.googleapis.com/google.rpc.ErrorInfo',
          reason: 'SESSION_NOT_FOUND',
          domain: 'forkspace',
          metadata: {
            sessionId: '000000000000000000000000000000000000',
          },
        },
      ],
    },
  },
  {
    operation: 'listSessions',
    name: 'those of a task',
    parameters: {
      filter: 'task=512',
      pageSize: 100,
    },
    status: 200,
    response: {
      sessions: [
        {
          id: '1kg9h1xw80rvvzn18jvsc0wh0ha6nhdeq9s3',
          baseFingerprint: '14a761796ce99283a2b449d084160cfd3af0530ba51cffb08eeea23ac4b41bbb',
          status: 'SESSION_STATUS_ACTIVE',
          tags: {
            agent: 'coder-1',
            task: '512',
          },
          createdAt: '2026-01-31T08:00:10.000Z',
          lastActivityAt: '2026-01-31T08:00:10.000Z',
          capabilities: {
            commit: true,
            approvals: true,
            annotations: true,
          },
        },
      ],
      nextPageToken: '',
    },
  },
  {
    operation: 'createDirectory',
    name: 'a directory',
    parameters: {
      sessionId: '1kg9h1xw80rvvzn18jvsc0wh0ha6nhdeq9s3',
    },
    body: {
      path: '/docs',
      mode: 493,
    },
    status: 200,
    response: {},
  },
  {
    operation: 'createDirectory',
    name: 'a directory that exists',
    parameters: {
      sessionId: '1kg9h1xw80rvvzn18jvsc0wh0ha6nhdeq9s3',
    },
    body: {
      path: '/docs',
    },
    status: 409,
    response: {
      code: 6,
      message: '/docs exists already',
      details: [
        {
          '@type': 'type.googleapis.com/google.rpc.ErrorInfo',
          reason: 'ALREADY_EXISTS',
          domain: 'forkspace',
          metadata: {
            path: '/docs',
          },
        },
      ],
    },
  },
  {
    operation: 'applyBatch',
    name: 'a batch',
    parameters: {
      sessionId: '1kg9h1xw80rvvzn18jvsc0wh0ha6nhdeq9s3',
    },
    body: {
      operations: [
        {
          write: {
            path: '/docs/guide.md',
            content: 'IyBHdWlkZQo=',
            expectedHash: '',
          },
        },
        {
          delete: {
            path: '/README.md',
            expectedHash: 'sha256:b3a8c46cf52dc3fd4163f4b8b8f10dc5bedcb1fc9b9f674210ad14ba42686ba8',
          },
        },
        {
          segmentWrite: {
            path: '/data.bin',
            segments: [
              {
                data: {
                  offset: '0',
                  content: 'aGVhZA==',
                },
              },
              {
                hole: {
                  offset: '4',
                  length: '4092',
                },
              },
            ],
            logicalSize: '4096',
            expectedHash: '',
            mode: 384,
          },
        },
      ],
    },
    status: 200,
    response: {},
  },
  {
    operation: 'applyBatch',
    name: 'a file that changed',
    parameters: {
      sessionId: '1kg9h1xw80rvvzn18jvsc0wh0ha6nhdeq9s3',
    },
    body: {
      operations: [
        {
          delete: {
            path: '/src/main.ts',
            expectedHash: 'sha256:ae448ac86c4e8e4dec645729708ef41873ae79c6dff84eff73360989487f08e5',
          },
        },
      ],
    },
    status: 409,
    response: {
      code: 10,
      message: '/src/main.ts does not have the expected hash: read it again, and decide anew',
      details: [
        {
          '@type': 'type.googleapis.com/google.rpc.ErrorInfo',
          reason: 'HASH_MISMATCH',
          domain: 'forkspace',
          metadata: {
            path: '/src/main.ts',
            expectedHash: 'sha256:ae448ac86c4e8e4dec645729708ef41873ae79c6dff84eff73360989487f08e5',
            actualHash: 'sha256:5d2eb782fe3a645dbf5bdf2d765a254438962649c9c892811408cb50e04a5be4',
          },
        },
      ],
    },
  },
  {
    operation: 'getCasExtents',
    name: 'a file with a hole',
    parameters: {
      sessionId: '1kg9h1xw80rvvzn18jvsc0wh0ha6nhdeq9s3',
    },
    body: {
      path: '/data.bin',
    },
    status: 200,
    response: {
      extents: [
        {
          offset: '0',
          length: '4',
          hash: 'sha256:9f2e6d33a3717ee826353a404ba4618d1aeeb6879ad7936bce8ed5f46814924d',
          casOffset: '0',
        },
      ],
    },
  },
  {
    operation: 'patchSegments',
    name: 'data and a borrowed range',
    parameters: {
      sessionId: '1kg9h1xw80rvvzn18jvsc0wh0ha6nhdeq9s3',
    },
    body: {
      mutations: [
        {
          path: '/data.bin',
          segments: [
            {
              data: {
                offset: '4092',
                content: 'dGFpbA==',
              },
            },
            {
              borrowed: {
                offset: '100',
                length: '4',
                hash: 'sha256:9f2e6d33a3717ee826353a404ba4618d1aeeb6879ad7936bce8ed5f46814924d',
                casOffset: '0',
              },
            },
          ],
        },
        {
          path: '/docs/guide.md',
          segments: [],
          expectedHash: 'sha256:ae448ac86c4e8e4dec645729708ef41873ae79c6dff84eff73360989487f08e5',
        },
      ],
      conflictPolicy: 'SEGMENT_CONFLICT_POLICY_SKIP_ON_CONFLICT',
    },
    status: 200,
    response: {
      skippedPaths: ['/docs/guide.md'],
    },
  },
  {
    operation: 'writeFile',
    name: 'a file',
    parameters: {
      sessionId: '1kg9h1xw80rvvzn18jvsc0wh0ha6nhdeq9s3',
    },
    body: {
      path: '/src/main.ts',
      content: 'ZXhwb3J0IGNvbnN0IGFuc3dlciA9IDQzCg==',
      expectedHash: 'sha256:5d2eb782fe3a645dbf5bdf2d765a254438962649c9c892811408cb50e04a5be4',
    },
    status: 200,
    response: {},
  },
  {
    operation: 'writeFile',
    name: 'a file that changed',
    parameters: {
      sessionId: '1kg9h1xw80rvvzn18jvsc0wh0ha6nhdeq9s3',
    },
    body: {
      path: '/src/main.ts',
      content: 'ZXhwb3J0IGNvbnN0IGFuc3dlciA9IDQ0Cg==',
      expectedHash: 'sha256:5d2eb782fe3a645dbf5bdf2d765a254438962649c9c892811408cb50e04a5be4',
    },
    status: 409,
    response: {
      code: 10,
      message: '/src/main.ts does not have the expected hash: read it again, and decide anew',
      details: [
        {
          '@type': 'type.googleapis.com/google.rpc.ErrorInfo',
          reason: 'HASH_MISMATCH',
          domain: 'forkspace',
          metadata: {
            path: '/src/main.ts',
            expectedHash: 'sha256:5d2eb782fe3a645dbf5bdf2d765a254438962649c9c892811408cb50e04a5be4',
            actualHash: 'sha256:08049e90215ce0b67dd8d00236d14e7ed46c7e6d9414bac3607f568cabc81d66',
          },
        },
      ],
    },
  },
  {
    operation: 'appendFile',
    name: 'a line',
    parameters: {
      sessionId: '1kg9h1xw80rvvzn18jvsc0wh0ha6nhdeq9s3',
    },
    body: {
      path: '/docs/guide.md',
      content: 'UmVhZCBpdC4K',
    },
    status: 200,
    response: {},
  },
  {
    operation: 'readFile',
    name: 'a part of a file',
    parameters: {
      sessionId: '1kg9h1xw80rvvzn18jvsc0wh0ha6nhdeq9s3',
    },
    body: {
      path: '/docs/guide.md',
      offset: '2',
      length: '5',
    },
    status: 200,
    response: {
      content: 'R3VpZGU=',
      contentHash: 'sha256:94e89f31a1683c036eacd159a8c70c14235856a6d8dd1344e3871cb67ca28721',
      sizeBytes: '17',
    },
  },
  {
    operation: 'copyFile',
    name: 'a file',
    parameters: {
      sessionId: '1kg9h1xw80rvvzn18jvsc0wh0ha6nhdeq9s3',
    },
    body: {
      sourcePath: '/docs/guide.md',
      destinationPath: '/docs/copy.md',
      exclusive: true,
    },
    status: 200,
    response: {},
  },
  {
    operation: 'setAttributes',
    name: 'a mode',
    parameters: {
      sessionId: '1kg9h1xw80rvvzn18jvsc0wh0ha6nhdeq9s3',
    },
    body: {
      path: '/docs/copy.md',
      mode: 384,
    },
    status: 200,
    response: {},
  },
  {
    operation: 'rename',
    name: 'a file',
    parameters: {
      sessionId: '1kg9h1xw80rvvzn18jvsc0wh0ha6nhdeq9s3',
    },
    body: {
      sourcePath: '/docs/copy.md',
      destinationPath: '/docs/draft.md',
    },
    status: 200,
    response: {},
  },
  {
    operation: 'createSymlink',
    name: 'a symlink',
    parameters: {
      sessionId: '1kg9h1xw80rvvzn18jvsc0wh0ha6nhdeq9s3',
    },
    body: {
      linkPath: '/latest',
      target: 'docs/guide.md',
    },
    status: 200,
    response: {},
  },
  {
    operation: 'listSymlinks',
    name: 'all symlinks',
    parameters: {
      sessionId: '1kg9h1xw80rvvzn18jvsc0wh0ha6nhdeq9s3',
      pathPrefix: '/',
      pageSize: 100,
    },
    status: 200,
    response: {
      symlinks: [
        {
          path: '/latest',
          target: 'docs/guide.md',
        },
      ],
      nextPageToken: '',
    },
  },
  {
    operation: 'readSymlink',
    name: 'a symlink',
    parameters: {
      sessionId: '1kg9h1xw80rvvzn18jvsc0wh0ha6nhdeq9s3',
      path: '/latest',
    },
    status: 200,
    response: {
      target: 'docs/guide.md',
    },
  },
  {
    operation: 'readSymlink',
    name: 'no symlink',
    parameters: {
      sessionId: '1kg9h1xw80rvvzn18jvsc0wh0ha6nhdeq9s3',
      path: '/src/main.ts',
    },
    status: 400,
    response: {
      code: 9,
      message: '/src/main.ts is not a symlink',
      details: [
        {
          '@type': 'type.googleapis.com/google.rpc.ErrorInfo',
          reason: 'NOT_A_SYMLINK',
          domain: 'forkspace',
          metadata: {
            path: '/src/main.ts',
          },
        },
      ],
    },
  },
  {
    operation: 'createHardLink',
    name: 'a second name',
    parameters: {
      sessionId: '1kg9h1xw80rvvzn18jvsc0wh0ha6nhdeq9s3',
    },
    body: {
      srcPath: '/docs/guide.md',
      dstPath: '/docs/second.md',
    },
    status: 200,
    response: {},
  },
  {
    operation: 'statPath',
    name: 'a file',
    parameters: {
      sessionId: '1kg9h1xw80rvvzn18jvsc0wh0ha6nhdeq9s3',
    },
    body: {
      path: '/docs/guide.md',
      includeContentHash: true,
    },
    status: 200,
    response: {
      path: '/docs/guide.md',
      kind: 'file',
      sizeBytes: '17',
      mode: 420,
      inode: '4503599627370449',
      nlink: 2,
      mtimeMs: 1769846423000,
      ctimeMs: 1769846432000,
      birthtimeMs: 1769846417000,
      contentHash: 'sha256:94e89f31a1683c036eacd159a8c70c14235856a6d8dd1344e3871cb67ca28721',
    },
  },
  {
    operation: 'unlink',
    name: 'one of two names',
    parameters: {
      sessionId: '1kg9h1xw80rvvzn18jvsc0wh0ha6nhdeq9s3',
    },
    body: {
      path: '/docs/second.md',
    },
    status: 200,
    response: {},
  },
  {
    operation: 'listDirectory',
    name: 'all of a session',
    parameters: {
      sessionId: '1kg9h1xw80rvvzn18jvsc0wh0ha6nhdeq9s3',
    },
    body: {
      path: '/',
      recursive: true,
    },
    status: 200,
    response: {
      entries: [
        {
          name: 'data.bin',
          kind: 'file',
        },
        {
          name: 'docs',
          kind: 'directory',
        },
        {
          name: 'docs/draft.md',
          kind: 'file',
        },
        {
          name: 'docs/guide.md',
          kind: 'file',
        },
        {
          name: 'latest',
          kind: 'symlink',
        },
        {
          name: 'src',
          kind: 'directory',
        },
        {
          name: 'src/main.ts',
          kind: 'file',
        },
      ],
      nextPageToken: '',
    },
  },
  {
    operation: 'setXattr',
    name: 'an attribute',
    parameters: {
      sessionId: '1kg9h1xw80rvvzn18jvsc0wh0ha6nhdeq9s3',
    },
    body: {
      path: '/docs/guide.md',
      name: 'user.language',
      value: 'ZW4=',
    },
    status: 200,
    response: {},
  },
  {
    operation: 'getXattr',
    name: 'an attribute',
    parameters: {
      sessionId: '1kg9h1xw80rvvzn18jvsc0wh0ha6nhdeq9s3',
    },
    body: {
      path: '/docs/guide.md',
      name: 'user.language',
    },
    status: 200,
    response: {
      value: 'ZW4=',
    },
  },
  {
    operation: 'listXattrs',
    name: 'of a file',
    parameters: {
      sessionId: '1kg9h1xw80rvvzn18jvsc0wh0ha6nhdeq9s3',
    },
    body: {
      path: '/docs/guide.md',
    },
    status: 200,
    response: {
      names: ['user.language'],
    },
  },
  {
    operation: 'removeXattr',
    name: 'an attribute',
    parameters: {
      sessionId: '1kg9h1xw80rvvzn18jvsc0wh0ha6nhdeq9s3',
    },
    body: {
      path: '/docs/guide.md',
      name: 'user.language',
    },
    status: 200,
    response: {},
  },
  {
    operation: 'getManifest',
    name: 'the first page',
    parameters: {
      sessionId: '1kg9h1xw80rvvzn18jvsc0wh0ha6nhdeq9s3',
      pathPrefix: '/docs/',
      pageSize: 1,
      includeCasExtents: true,
    },
    status: 200,
    response: {
      nodes: [
        {
          path: '/docs/draft.md',
          fileType: 'VFS_FILE_TYPE_FILE',
          sizeBytes: '17',
          contentHash: 'sha256:94e89f31a1683c036eacd159a8c70c14235856a6d8dd1344e3871cb67ca28721',
          mode: 384,
          casExtents: [
            {
              offset: '0',
              length: '8',
              hash: 'sha256:bc553ffe57e544498b12a9865dbf3abc2004c474e349c52c378eaa402287424b',
              casOffset: '0',
            },
            {
              offset: '8',
              length: '9',
              hash: 'sha256:b492834e4ddc7beedaebafff8465cdceeb66fc6370db1e70e41d8aff36278553',
              casOffset: '0',
            },
          ],
        },
      ],
      nextPageToken: 'WyJtYW5pZmVzdCAvZG9jcy8iLCIvZG9jcy9kcmFmdC5tZCJd',
      manifestHash: 'sha256:76da9c7f3192ac5d807b3c6341d7cf754c405851a77149fde67b9736fbef8a5c',
    },
  },
  {
    operation: 'getManifest',
    name: 'the last page',
    parameters: {
      sessionId: '1kg9h1xw80rvvzn18jvsc0wh0ha6nhdeq9s3',
      pathPrefix: '/docs/',
      pageSize: 1,
      pageToken: 'WyJtYW5pZmVzdCAvZG9jcy8iLCIvZG9jcy9kcmFmdC5tZCJd',
    },
    status: 200,
    response: {
      nodes: [
        {
          path: '/docs/guide.md',
          fileType: 'VFS_FILE_TYPE_FILE',
          sizeBytes: '17',
          contentHash: 'sha256:94e89f31a1683c036eacd159a8c70c14235856a6d8dd1344e3871cb67ca28721',
          mode: 420,
          casExtents: [],
        },
      ],
      nextPageToken: '',
      manifestHash: 'sha256:76da9c7f3192ac5d807b3c6341d7cf754c405851a77149fde67b9736fbef8a5c',
    },
  },
  {
    operation: 'getManifest',
    name: 'a page of less than nothing',
    parameters: {
      sessionId: '1kg9h1xw80rvvzn18jvsc0wh0ha6nhdeq9s3',
      pageSize: -1,
    },
    status: 400,
    response: {
      code: 3,
      message: 'pageSize: must be a whole number from 0; it is -1',
      details: [
        {
          '@type': 'type.googleapis.com/google.rpc.ErrorInfo',
          reason: 'INVALID_ARGUMENT',
          domain: 'forkspace',
          metadata: {
            field: 'pageSize',
          },
        },
      ],
    },
  },
  {
    operation: 'createCheckpoint',
    name: 'a checkpoint',
    parameters: {
      sessionId: '1kg9h1xw80rvvzn18jvsc0wh0ha6nhdeq9s3',
    },
    body: {
      label: 'before-review',
    },
    status: 200,
    response: {
      id: '1kg9h1ztr04e35hrdy99ykj950vns8y9rtw9',
      sessionId: '1kg9h1xw80rvvzn18jvsc0wh0ha6nhdeq9s3',
      label: 'before-review',
      createdAt: '2026-01-31T08:00:43.000Z',
    },
  },
  {
    operation: 'deleteFile',
    name: 'a file',
    parameters: {
      sessionId: '1kg9h1xw80rvvzn18jvsc0wh0ha6nhdeq9s3',
      path: '/docs/draft.md',
    },
    status: 200,
    response: {},
  },
  {
    operation: 'diff',
    name: 'a checkpoint and the newest state',
    parameters: {
      sessionId: '1kg9h1xw80rvvzn18jvsc0wh0ha6nhdeq9s3',
    },
    body: {
      from: {
        checkpointLabel: 'before-review',
      },
      to: {},
    },
    status: 200,
    response: {
      changes: [
        {
          path: '/docs/draft.md',
          change: 'removed',
          kind: 'file',
        },
      ],
      nextPageToken: '',
    },
  },
  {
    operation: 'listCheckpoints',
    name: 'all checkpoints',
    parameters: {
      sessionId: '1kg9h1xw80rvvzn18jvsc0wh0ha6nhdeq9s3',
    },
    status: 200,
    response: {
      checkpoints: [
        {
          id: '1kg9h1ztr04e35hrdy99ykj950vns8y9rtw9',
          sessionId: '1kg9h1xw80rvvzn18jvsc0wh0ha6nhdeq9s3',
          label: 'before-review',
          createdAt: '2026-01-31T08:00:43.000Z',
        },
      ],
      nextPageToken: '',
    },
  },
  {
    operation: 'forkSession',
    name: 'a checkpoint',
    parameters: {
      sourceSessionId: '1kg9h1xw80rvvzn18jvsc0wh0ha6nhdeq9s3',
    },
    body: {
      sourceCheckpointLabel: 'before-review',
      newTags: {
        agent: 'coder-2',
      },
    },
    status: 200,
    response: {
      id: '1kg9h20t006qee2hz53mxq87czpbsbw4bwwq',
      baseFingerprint: '14a761796ce99283a2b449d084160cfd3af0530ba51cffb08eeea23ac4b41bbb',
      status: 'SESSION_STATUS_ACTIVE',
      tags: {
        agent: 'coder-2',
        task: '512',
      },
      createdAt: '2026-01-31T08:00:47.000Z',
      lastActivityAt: '2026-01-31T08:00:47.000Z',
      capabilities: {
        commit: true,
        approvals: true,
        annotations: true,
      },
    },
  },
  {
    operation: 'restoreCheckpoint',
    name: 'a checkpoint',
    parameters: {
      sessionId: '1kg9h1xw80rvvzn18jvsc0wh0ha6nhdeq9s3',
    },
    body: {
      checkpointId: '1kg9h1ztr04e35hrdy99ykj950vns8y9rtw9',
    },
    status: 200,
    response: {
      id: '1kg9h1xw80rvvzn18jvsc0wh0ha6nhdeq9s3',
      baseFingerprint: '14a761796ce99283a2b449d084160cfd3af0530ba51cffb08eeea23ac4b41bbb',
      status: 'SESSION_STATUS_ACTIVE',
      tags: {
        agent: 'coder-1',
        task: '512',
      },
      createdAt: '2026-01-31T08:00:10.000Z',
      lastActivityAt: '2026-01-31T08:00:48.000Z',
      capabilities: {
        commit: true,
        approvals: true,
        annotations: true,
      },
    },
  },
  {
    operation: 'removeDirectory',
    name: 'a directory that is not empty',
    parameters: {
      sessionId: '1kg9h1xw80rvvzn18jvsc0wh0ha6nhdeq9s3',
      path: '/docs',
    },
    status: 400,
    response: {
      code: 9,
      message:
        'directory /docs is not empty; remove its entries first, or pass { recursive: true } to removeDirectory',
      details: [
        {
          '@type': 'type.googleapis.com/google.rpc.ErrorInfo',
          reason: 'DIRECTORY_NOT_EMPTY',
          domain: 'forkspace',
          metadata: {
            path: '/docs',
          },
        },
      ],
    },
  },
  {
    operation: 'removeDirectory',
    name: 'a directory',
    parameters: {
      sessionId: '1kg9h1xw80rvvzn18jvsc0wh0ha6nhdeq9s3',
      path: '/docs',
      recursive: true,
    },
    status: 200,
    response: {},
  },
  {
    operation: 'restoreCheckpoint',
    name: 'a checkpoint by its label',
    parameters: {
      sessionId: '1kg9h1xw80rvvzn18jvsc0wh0ha6nhdeq9s3',
    },
    body: {
      checkpointLabel: 'before-review',
    },
    status: 200,
    response: {
      id: '1kg9h1xw80rvvzn18jvsc0wh0ha6nhdeq9s3',
      baseFingerprint: '14a761796ce99283a2b449d084160cfd3af0530ba51cffb08eeea23ac4b41bbb',
      status: 'SESSION_STATUS_ACTIVE',
      tags: {
        agent: 'coder-1',
        task: '512',
      },
      createdAt: '2026-01-31T08:00:10.000Z',
      lastActivityAt: '2026-01-31T08:00:51.000Z',
      capabilities: {
        commit: true,
        approvals: true,
        annotations: true,
      },
    },
  },
  {
    operation: 'deleteCheckpoint',
    name: 'a checkpoint by its label',
    parameters: {
      sessionId: '1kg9h1xw80rvvzn18jvsc0wh0ha6nhdeq9s3',
    },
    body: {
      checkpointLabel: 'before-review',
    },
    status: 200,
    response: {},
  },
  {
    operation: 'setPosixLock',
    name: 'a range',
    parameters: {
      sessionId: '1kg9h1xw80rvvzn18jvsc0wh0ha6nhdeq9s3',
    },
    body: {
      path: '/data.bin',
      kind: 'POSIX_LOCK_KIND_EXCLUSIVE',
      range: {
        start: '0',
        length: '100',
      },
      owner: {
        ownerId: 'coder-1',
        pid: 4711,
        clientId: 'worker-a',
      },
    },
    status: 200,
    response: {},
  },
  {
    operation: 'getPosixLock',
    name: 'a conflict',
    parameters: {
      sessionId: '1kg9h1xw80rvvzn18jvsc0wh0ha6nhdeq9s3',
    },
    body: {
      path: '/data.bin',
      kind: 'POSIX_LOCK_KIND_SHARED',
      range: {
        start: '50',
        length: '0',
      },
      owner: {
        ownerId: 'coder-2',
      },
    },
    status: 200,
    response: {
      hasConflict: true,
      conflict: {
        kind: 'POSIX_LOCK_KIND_EXCLUSIVE',
        range: {
          start: '0',
          length: '100',
        },
        owner: {
          ownerId: 'coder-1',
          pid: 4711,
          clientId: 'worker-a',
        },
        isFlock: false,
      },
    },
  },
  {
    operation: 'setPosixLock',
    name: 'a range that is locked',
    parameters: {
      sessionId: '1kg9h1xw80rvvzn18jvsc0wh0ha6nhdeq9s3',
    },
    body: {
      path: '/data.bin',
      kind: 'POSIX_LOCK_KIND_EXCLUSIVE',
      owner: {
        ownerId: 'coder-2',
      },
    },
    status: 409,
    response: {
      code: 10,
      message:
        '/data.bin is locked by another owner; wait for the lock with a blocking request, or try again later',
      details: [
        {
          '@type': 'type.googleapis.com/google.rpc.ErrorInfo',
          reason: 'LOCK_HELD',
          domain: 'forkspace',
          metadata: {
            path: '/data.bin',
          },
        },
      ],
    },
  },
  {
    operation: 'setPosixLockBlocking',
    name: 'a range that is free',
    parameters: {
      sessionId: '1kg9h1xw80rvvzn18jvsc0wh0ha6nhdeq9s3',
    },
    body: {
      path: '/data.bin',
      kind: 'POSIX_LOCK_KIND_EXCLUSIVE',
      range: {
        start: '100',
        length: '0',
      },
      owner: {
        ownerId: 'coder-1',
        pid: 4711,
        clientId: 'worker-a',
      },
    },
    status: 200,
    response: {},
  },
  {
    operation: 'flock',
    name: 'a file',
    parameters: {
      sessionId: '1kg9h1xw80rvvzn18jvsc0wh0ha6nhdeq9s3',
    },
    body: {
      path: '/data.bin',
      mode: 'POSIX_FLOCK_MODE_SHARED',
      owner: {
        ownerId: 'coder-1',
        pid: 4711,
        clientId: 'worker-a',
      },
      blocking: true,
    },
    status: 200,
    response: {},
  },
  {
    operation: 'funlock',
    name: 'a range',
    parameters: {
      sessionId: '1kg9h1xw80rvvzn18jvsc0wh0ha6nhdeq9s3',
    },
    body: {
      path: '/data.bin',
      owner: {
        ownerId: 'coder-1',
        pid: 4711,
        clientId: 'worker-a',
      },
      range: {
        start: '0',
        length: '100',
      },
      isFlock: false,
    },
    status: 200,
    response: {},
  },
  {
    operation: 'lockFile',
    name: 'a path',
    parameters: {
      sessionId: '1kg9h1xw80rvvzn18jvsc0wh0ha6nhdeq9s3',
    },
    body: {
      path: '/src/main.ts',
      timeoutSeconds: 300,
    },
    status: 200,
    response: {
      lockId: '1kg9h21s80gn1566fpapf86xywh84tnjnbgw',
    },
  },
  {
    operation: 'lockFile',
    name: 'a path that is locked',
    parameters: {
      sessionId: '1kg9h1xw80rvvzn18jvsc0wh0ha6nhdeq9s3',
    },
    body: {
      path: '/src/main.ts',
      timeoutSeconds: 300,
    },
    status: 409,
    response: {
      code: 10,
      message: '/src/main.ts is locked: wait until it is unlocked or expires, or use forceUnlock',
      details: [
        {
          '@type': 'type.googleapis.com/google.rpc.ErrorInfo',
          reason: 'LOCK_HELD',
          domain: 'forkspace',
          metadata: {
            path: '/src/main.ts',
          },
        },
      ],
    },
  },
  {
    operation: 'renewFileLock',
    name: 'a lock',
    parameters: {
      sessionId: '1kg9h1xw80rvvzn18jvsc0wh0ha6nhdeq9s3',
    },
    body: {
      path: '/src/main.ts',
      lockId: '1kg9h21s80gn1566fpapf86xywh84tnjnbgw',
      timeoutSeconds: 600,
    },
    status: 200,
    response: {
      lockId: '1kg9h21s80gn1566fpapf86xywh84tnjnbgw',
      remainingTtlSeconds: '600',
    },
  },
  {
    operation: 'listFileLocks',
    name: 'of a directory',
    parameters: {
      sessionId: '1kg9h1xw80rvvzn18jvsc0wh0ha6nhdeq9s3',
    },
    body: {
      pathPrefix: '/src/',
    },
    status: 200,
    response: {
      locks: [
        {
          lockId: '1kg9h21s80gn1566fpapf86xywh84tnjnbgw',
          path: '/src/main.ts',
          ownerId: 'ann',
          remainingTtlSeconds: '599',
        },
      ],
    },
  },
  {
    operation: 'unlockFile',
    name: 'a lock',
    parameters: {
      sessionId: '1kg9h1xw80rvvzn18jvsc0wh0ha6nhdeq9s3',
    },
    body: {
      path: '/src/main.ts',
      lockId: '1kg9h21s80gn1566fpapf86xywh84tnjnbgw',
    },
    status: 200,
    response: {},
  },
  {
    operation: 'unlockFile',
    name: 'a lock that is gone',
    parameters: {
      sessionId: '1kg9h1xw80rvvzn18jvsc0wh0ha6nhdeq9s3',
    },
    body: {
      path: '/src/main.ts',
      lockId: '1kg9h21s80gn1566fpapf86xywh84tnjnbgw',
    },
    status: 404,
    response: {
      code: 5,
      message: '/src/main.ts has no lock with this id: it was released, or it expired',
      details: [
        {
          '@type': 'type.googleapis.com/google.rpc.ErrorInfo',
          reason: 'LOCK_NOT_FOUND',
          domain: 'forkspace',
          metadata: {
            path: '/src/main.ts',
            lockId: '1kg9h21s80gn1566fpapf86xywh84tnjnbgw',
          },
        },
      ],
    },
  },
  {
    operation: 'lockFile',
    name: 'another path',
    parameters: {
      sessionId: '1kg9h1xw80rvvzn18jvsc0wh0ha6nhdeq9s3',
    },
    body: {
      path: '/docs/guide.md',
      timeoutSeconds: 60,
    },
    status: 200,
    response: {
      lockId: '1kg9h22rg0nxbx1j62750kvs9w328z6242pp',
    },
  },
  {
    operation: 'forceUnlockFile',
    name: 'a lock',
    parameters: {
      sessionId: '1kg9h1xw80rvvzn18jvsc0wh0ha6nhdeq9s3',
    },
    body: {
      path: '/docs/guide.md',
      reason: 'its holder is gone',
    },
    status: 200,
    response: {
      lockId: '1kg9h22rg0nxbx1j62750kvs9w328z6242pp',
      ownerId: 'ann',
    },
  },
  {
    operation: 'addAnnotation',
    name: 'a line',
    parameters: {
      sessionId: '1kg9h1xw80rvvzn18jvsc0wh0ha6nhdeq9s3',
    },
    body: {
      filePath: '/src/main.ts',
      lineNumber: 1,
      expectedContentHash: 'sha256:08049e90215ce0b67dd8d00236d14e7ed46c7e6d9414bac3607f568cabc81d66',
      comment: 'Why 43?',
    },
    status: 200,
    response: {
      annotation: {
        id: '1kg9h23qr03nh2bejbg5et7khtr81pz6fqf7',
        sessionId: '1kg9h1xw80rvvzn18jvsc0wh0ha6nhdeq9s3',
        filePath: '/src/main.ts',
        lineNumber: 1,
        contentHash: 'sha256:08049e90215ce0b67dd8d00236d14e7ed46c7e6d9414bac3607f568cabc81d66',
        comment: 'Why 43?',
        reviewerId: 'ann',
        status: 'ANNOTATION_STATUS_OPEN',
        createdAt: '2026-01-31T08:01:07.000Z',
      },
    },
  },
  {
    operation: 'listAnnotations',
    name: 'of a file',
    parameters: {
      sessionId: '1kg9h1xw80rvvzn18jvsc0wh0ha6nhdeq9s3',
      filePath: '/src/main.ts',
    },
    status: 200,
    response: {
      annotations: [
        {
          id: '1kg9h23qr03nh2bejbg5et7khtr81pz6fqf7',
          sessionId: '1kg9h1xw80rvvzn18jvsc0wh0ha6nhdeq9s3',
          filePath: '/src/main.ts',
          lineNumber: 1,
          contentHash: 'sha256:08049e90215ce0b67dd8d00236d14e7ed46c7e6d9414bac3607f568cabc81d66',
          comment: 'Why 43?',
          reviewerId: 'ann',
          status: 'ANNOTATION_STATUS_OPEN',
          createdAt: '2026-01-31T08:01:07.000Z',
        },
      ],
    },
  },
  {
    operation: 'updateAnnotationStatus',
    name: 'a resolved annotation',
    parameters: {
      sessionId: '1kg9h1xw80rvvzn18jvsc0wh0ha6nhdeq9s3',
      annotationId: '1kg9h23qr03nh2bejbg5et7khtr81pz6fqf7',
    },
    body: {
      newStatus: 'ANNOTATION_STATUS_RESOLVED',
    },
    status: 200,
    response: {
      annotation: {
        id: '1kg9h23qr03nh2bejbg5et7khtr81pz6fqf7',
        sessionId: '1kg9h1xw80rvvzn18jvsc0wh0ha6nhdeq9s3',
        filePath: '/src/main.ts',
        lineNumber: 1,
        contentHash: 'sha256:08049e90215ce0b67dd8d00236d14e7ed46c7e6d9414bac3607f568cabc81d66',
        comment: 'Why 43?',
        reviewerId: 'ann',
        status: 'ANNOTATION_STATUS_RESOLVED',
        createdAt: '2026-01-31T08:01:07.000Z',
      },
    },
  },
  {
    operation: 'generateCommitSummary',
    name: 'since the base',
    parameters: {
      sessionId: '1kg9h1xw80rvvzn18jvsc0wh0ha6nhdeq9s3',
    },
    body: {},
    status: 200,
    response: {
      summary:
        'Change 6 files\n\nAdded:\n- /data.bin\n- /docs/draft.md\n- /docs/guide.md\n- /latest\n\nRemoved:\n- /README.md\n\nModified:\n- /src/main.ts',
      changedFiles: [
        '/README.md',
        '/data.bin',
        '/docs/draft.md',
        '/docs/guide.md',
        '/latest',
        '/src/main.ts',
      ],
    },
  },
  {
    operation: 'requestApproval',
    name: 'an approval',
    parameters: {
      sessionId: '1kg9h1xw80rvvzn18jvsc0wh0ha6nhdeq9s3',
    },
    body: {
      reason: 'COMMIT_TO_MAIN',
      details: {
        summary:
          'Change 6 files\n\nAdded:\n- /data.bin\n- /docs/draft.md\n- /docs/guide.md\n- /latest\n\nRemoved:\n- /README.md\n\nModified:\n- /src/main.ts',
        changedFiles: [
          '/README.md',
          '/data.bin',
          '/docs/draft.md',
          '/docs/guide.md',
          '/latest',
          '/src/main.ts',
        ],
      },
    },
    status: 200,
    response: {
      approvalId: '1kg9h24q00v7zvjsm9b1wh77sq60jqx971js',
    },
  },
  {
    operation: 'grantApproval',
    name: 'an approval',
    parameters: {
      sessionId: '1kg9h1xw80rvvzn18jvsc0wh0ha6nhdeq9s3',
      approvalId: '1kg9h24q00v7zvjsm9b1wh77sq60jqx971js',
    },
    body: {},
    status: 200,
    response: {},
  },
  {
    operation: 'grantApproval',
    name: 'an approval that was decided',
    parameters: {
      sessionId: '1kg9h1xw80rvvzn18jvsc0wh0ha6nhdeq9s3',
      approvalId: '1kg9h24q00v7zvjsm9b1wh77sq60jqx971js',
    },
    body: {},
    status: 400,
    response: {
      code: 9,
      message: 'the approval "1kg9h24q00v7zvjsm9b1wh77sq60jqx971js" was already granted',
      details: [
        {
          '@type': 'type.googleapis.com/google.rpc.ErrorInfo',
          reason: 'APPROVAL_NOT_PENDING',
          domain: 'forkspace',
          metadata: {
            approvalId: '1kg9h24q00v7zvjsm9b1wh77sq60jqx971js',
          },
        },
      ],
    },
  },
  {
    operation: 'requestApproval',
    name: 'another approval',
    parameters: {
      sessionId: '1kg9h1xw80rvvzn18jvsc0wh0ha6nhdeq9s3',
    },
    body: {},
    status: 200,
    response: {
      approvalId: '1kg9h25p802az682a4rc3ay4jskzqjkwvcxr',
    },
  },
  {
    operation: 'denyApproval',
    name: 'an approval',
    parameters: {
      sessionId: '1kg9h1xw80rvvzn18jvsc0wh0ha6nhdeq9s3',
      approvalId: '1kg9h25p802az682a4rc3ay4jskzqjkwvcxr',
    },
    body: {
      feedback: 'Not before the tests pass.',
    },
    status: 200,
    response: {},
  },
  {
    operation: 'listApprovals',
    name: 'all approvals',
    parameters: {
      sessionId: '1kg9h1xw80rvvzn18jvsc0wh0ha6nhdeq9s3',
    },
    status: 200,
    response: {
      approvals: [
        {
          approvalId: '1kg9h24q00v7zvjsm9b1wh77sq60jqx971js',
          sessionId: '1kg9h1xw80rvvzn18jvsc0wh0ha6nhdeq9s3',
          reason: 'COMMIT_TO_MAIN',
          summary:
            'Change 6 files\n\nAdded:\n- /data.bin\n- /docs/draft.md\n- /docs/guide.md\n- /latest\n\nRemoved:\n- /README.md\n\nModified:\n- /src/main.ts',
          changedFiles: [
            '/README.md',
            '/data.bin',
            '/docs/draft.md',
            '/docs/guide.md',
            '/latest',
            '/src/main.ts',
          ],
          status: 'APPROVAL_STATUS_GRANTED',
          requestedBy: 'ann',
          createdAt: '2026-01-31T08:01:11.000Z',
          decidedBy: 'ann',
          decidedAt: '2026-01-31T08:01:12.000Z',
          feedback: '',
        },
        {
          approvalId: '1kg9h25p802az682a4rc3ay4jskzqjkwvcxr',
          sessionId: '1kg9h1xw80rvvzn18jvsc0wh0ha6nhdeq9s3',
          reason: 'COMMIT_TO_MAIN',
          summary: '',
          changedFiles: [],
          status: 'APPROVAL_STATUS_DENIED',
          requestedBy: 'ann',
          createdAt: '2026-01-31T08:01:14.000Z',
          decidedBy: 'ann',
          decidedAt: '2026-01-31T08:01:15.000Z',
          feedback: 'Not before the tests pass.',
        },
      ],
    },
  },
  {
    operation: 'commit',
    name: 'a commit',
    parameters: {
      sessionId: '1kg9h1xw80rvvzn18jvsc0wh0ha6nhdeq9s3',
    },
    body: {
      message: 'Correct the answer',
      author: {
        name: 'Ann',
        email: 'ann@example.org',
      },
    },
    status: 200,
    response: {
      commitId: '9ceadb32a88ac69ccbe96dbfe72921ec8679da11',
    },
  },
  {
    operation: 'putCacheEntry',
    name: 'an entry',
    parameters: {
      sessionId: '1kg9h1xw80rvvzn18jvsc0wh0ha6nhdeq9s3',
      key: 'build/main',
    },
    body: {
      value: 'YnVpbHQ=',
      ttlSeconds: 3600,
    },
    status: 200,
    response: {},
  },
  {
    operation: 'getCacheEntry',
    name: 'an entry',
    parameters: {
      sessionId: '1kg9h1xw80rvvzn18jvsc0wh0ha6nhdeq9s3',
      key: 'build/main',
    },
    status: 200,
    response: {
      value: 'YnVpbHQ=',
      found: true,
    },
  },
  {
    operation: 'getCacheEntry',
    name: 'no entry',
    parameters: {
      sessionId: '1kg9h1xw80rvvzn18jvsc0wh0ha6nhdeq9s3',
      key: 'build/none',
    },
    status: 200,
    response: {
      value: '',
      found: false,
    },
  },
  {
    operation: 'cacheEntryExists',
    name: 'an entry',
    parameters: {
      sessionId: '1kg9h1xw80rvvzn18jvsc0wh0ha6nhdeq9s3',
      key: 'build/main',
    },
    status: 200,
    response: {
      exists: true,
    },
  },
  {
    operation: 'getCacheMetadata',
    name: 'an entry',
    parameters: {
      sessionId: '1kg9h1xw80rvvzn18jvsc0wh0ha6nhdeq9s3',
      key: 'build/main',
    },
    status: 200,
    response: {
      key: 'build/main',
      sizeBytes: '5',
      createdAt: '2026-01-31T08:01:18.000Z',
      updatedAt: '2026-01-31T08:01:18.000Z',
      expiresAt: '2026-01-31T09:01:18.000Z',
    },
  },
  {
    operation: 'getCacheMetadata',
    name: 'no entry',
    parameters: {
      sessionId: '1kg9h1xw80rvvzn18jvsc0wh0ha6nhdeq9s3',
      key: 'build/none',
    },
    status: 404,
    response: {
      code: 5,
      message: 'the cache has no entry "build/none"',
      details: [
        {
          '@type': 'type.googleapis.com/google.rpc.ErrorInfo',
          reason: 'CACHE_KEY_NOT_FOUND',
          domain: 'forkspace',
          metadata: {
            key: 'build/none',
          },
        },
      ],
    },
  },
  {
    operation: 'compareAndSetCacheEntry',
    name: 'an entry that is unchanged',
    parameters: {
      sessionId: '1kg9h1xw80rvvzn18jvsc0wh0ha6nhdeq9s3',
      key: 'build/main',
    },
    body: {
      expectedValue: 'YnVpbHQ=',
      newValue: 'YnVpbHQgYWdhaW4=',
    },
    status: 200,
    response: {
      swapped: true,
      value: 'YnVpbHQgYWdhaW4=',
      found: true,
    },
  },
  {
    operation: 'compareAndSetCacheEntry',
    name: 'an entry that changed',
    parameters: {
      sessionId: '1kg9h1xw80rvvzn18jvsc0wh0ha6nhdeq9s3',
      key: 'build/main',
    },
    body: {
      newValue: 'bWluZQ==',
    },
    status: 200,
    response: {
      swapped: false,
      value: 'YnVpbHQgYWdhaW4=',
      found: true,
    },
  },
  {
    operation: 'batchSetCache',
    name: 'two entries',
    parameters: {
      sessionId: '1kg9h1xw80rvvzn18jvsc0wh0ha6nhdeq9s3',
    },
    body: {
      entries: [
        {
          key: 'test/a',
          value: 'MQ==',
          ttlSeconds: 60,
        },
        {
          key: 'test/b',
          value: 'Mg==',
        },
      ],
    },
    status: 200,
    response: {},
  },
  {
    operation: 'batchGetCache',
    name: 'two keys',
    parameters: {
      sessionId: '1kg9h1xw80rvvzn18jvsc0wh0ha6nhdeq9s3',
    },
    body: {
      keys: ['test/a', 'none'],
    },
    status: 200,
    response: {
      entries: [
        {
          key: 'test/a',
          value: 'MQ==',
          found: true,
        },
        {
          key: 'none',
          value: '',
          found: false,
        },
      ],
    },
  },
  {
    operation: 'listCacheKeys',
    name: 'a page',
    parameters: {
      sessionId: '1kg9h1xw80rvvzn18jvsc0wh0ha6nhdeq9s3',
      prefix: 'test/',
      pageSize: 100,
    },
    status: 200,
    response: {
      keys: ['test/a', 'test/b'],
      nextPageToken: '',
    },
  },
  {
    operation: 'getCacheStats',
    name: 'the cache',
    parameters: {
      sessionId: '1kg9h1xw80rvvzn18jvsc0wh0ha6nhdeq9s3',
    },
    status: 200,
    response: {
      entryCount: 3,
      sizeBytes: '35',
      hitCount: '2',
      missCount: '2',
    },
  },
  {
    operation: 'deleteCacheEntry',
    name: 'an entry',
    parameters: {
      sessionId: '1kg9h1xw80rvvzn18jvsc0wh0ha6nhdeq9s3',
      key: 'build/main',
    },
    status: 200,
    response: {},
  },
  {
    operation: 'batchDeleteCache',
    name: 'two keys',
    parameters: {
      sessionId: '1kg9h1xw80rvvzn18jvsc0wh0ha6nhdeq9s3',
    },
    body: {
      keys: ['test/a', 'none'],
    },
    status: 200,
    response: {
      deletedCount: 1,
    },
  },
  {
    operation: 'deleteCacheByPrefix',
    name: 'a prefix',
    parameters: {
      sessionId: '1kg9h1xw80rvvzn18jvsc0wh0ha6nhdeq9s3',
    },
    body: {
      prefix: 'test/',
    },
    status: 200,
    response: {
      deletedCount: 1,
    },
  },
  {
    operation: 'publishMessage',
    name: 'a message',
    parameters: {
      sessionId: '1kg9h1xw80rvvzn18jvsc0wh0ha6nhdeq9s3',
    },
    body: {
      topic: 'progress',
      payload: 'NTAgJQ==',
    },
    status: 200,
    response: {},
  },
  {
    operation: 'subscribe',
    name: 'a message',
    parameters: {
      sessionId: '1kg9h1xw80rvvzn18jvsc0wh0ha6nhdeq9s3',
      topics: ['progress'],
      scope: 'SESSION_ONLY',
      replayLimit: 1,
    },
    status: 200,
    response: {
      result: {
        messageId: '00000001',
        sessionId: '1kg9h1xw80rvvzn18jvsc0wh0ha6nhdeq9s3',
        topic: 'progress',
        payload: 'NTAgJQ==',
        senderId: 'ann',
        publishedAt: '2026-01-31T08:01:33.000Z',
      },
    },
  },
  {
    operation: 'getHealth',
    name: 'before the first report',
    parameters: {
      sessionId: '1kg9h1xw80rvvzn18jvsc0wh0ha6nhdeq9s3',
    },
    status: 200,
    response: {
      health: {
        status: 'STATUS_UNKNOWN',
        testsPassed: 0,
        testsFailed: 0,
        testsSkipped: 0,
        lastUpdatedAt: '',
      },
    },
  },
  {
    operation: 'reportHealth',
    name: 'a report',
    parameters: {
      sessionId: '1kg9h1xw80rvvzn18jvsc0wh0ha6nhdeq9s3',
    },
    body: {
      reportFormat: 'junit-xml/v1',
      reportContent:
        'PHRlc3RzdWl0ZT48dGVzdGNhc2UgbmFtZT0iYWRkcyIvPjx0ZXN0Y2FzZSBuYW1lPSJkaXZpZGVzIj48ZmFpbHVyZS8+PC90ZXN0Y2FzZT48L3Rlc3RzdWl0ZT4=',
    },
    status: 200,
    response: {
      newHealthStatus: {
        status: 'STATUS_FAILING',
        testsPassed: 1,
        testsFailed: 1,
        testsSkipped: 0,
        lastUpdatedAt: '2026-01-31T08:01:36.000Z',
      },
    },
  },
  {
    operation: 'listHealthReports',
    name: 'a report',
    parameters: {
      sessionId: '1kg9h1xw80rvvzn18jvsc0wh0ha6nhdeq9s3',
      pageSize: 10,
    },
    status: 200,
    response: {
      reports: [
        {
          status: 'STATUS_FAILING',
          testsPassed: 1,
          testsFailed: 1,
          testsSkipped: 0,
          lastUpdatedAt: '2026-01-31T08:01:36.000Z',
          reportedBy: 'ann',
        },
      ],
      nextPageToken: '',
    },
  },
  {
    operation: 'putSecret',
    name: 'a secret',
    parameters: {
      sessionId: '1kg9h1xw80rvvzn18jvsc0wh0ha6nhdeq9s3',
      secretName: 'API_TOKEN',
    },
    body: {
      secretValue: 'not-for-files',
    },
    status: 200,
    response: {
      secretName: 'API_TOKEN',
      scope: 'SECRET_SCOPE_SESSION',
    },
  },
  {
    operation: 'listSecrets',
    name: 'all secrets',
    parameters: {
      sessionId: '1kg9h1xw80rvvzn18jvsc0wh0ha6nhdeq9s3',
      scope: 'SECRET_SCOPE_SESSION',
    },
    status: 200,
    response: {
      secrets: [
        {
          secretName: 'API_TOKEN',
          scope: 'SECRET_SCOPE_SESSION',
        },
      ],
    },
  },
  {
    operation: 'getSecret',
    name: 'a secret',
    parameters: {
      sessionId: '1kg9h1xw80rvvzn18jvsc0wh0ha6nhdeq9s3',
      secretName: 'API_TOKEN',
    },
    status: 200,
    response: {
      secretName: 'API_TOKEN',
      secretValue: 'not-for-files',
    },
  },
  {
    operation: 'deleteSecret',
    name: 'a secret',
    parameters: {
      sessionId: '1kg9h1xw80rvvzn18jvsc0wh0ha6nhdeq9s3',
      secretName: 'API_TOKEN',
      scope: 'SECRET_SCOPE_SESSION',
    },
    status: 200,
    response: {
      secretName: 'API_TOKEN',
      scope: 'SECRET_SCOPE_SESSION',
    },
  },
  {
    operation: 'getSecret',
    name: 'no such secret',
    parameters: {
      sessionId: '1kg9h1xw80rvvzn18jvsc0wh0ha6nhdeq9s3',
      secretName: 'API_TOKEN',
    },
    status: 404,
    response: {
      code: 5,
      message: 'the session has no secret named "API_TOKEN"',
      details: [
        {
          '@type': 'type.googleapis.com/google.rpc.ErrorInfo',
          reason: 'SECRET_NOT_FOUND',
          domain: 'forkspace',
          metadata: {
            secretName: 'API_TOKEN',
          },
        },
      ],
    },
  },
  {
    operation: 'getAnalytics',
    name: 'a session',
    parameters: {
      sessionId: '1kg9h1xw80rvvzn18jvsc0wh0ha6nhdeq9s3',
    },
    status: 200,
    response: {
      sessionId: '1kg9h1xw80rvvzn18jvsc0wh0ha6nhdeq9s3',
      timeToFirstWriteMs: '5000',
      totalFileMutations: '15',
      checkpointCount: '1',
      restoreCount: '2',
      lastReportedHealth: {
        status: 'STATUS_FAILING',
        testsPassed: 1,
        testsFailed: 1,
        testsSkipped: 0,
        lastUpdatedAt: '2026-01-31T08:01:36.000Z',
      },
      completionTime: '2026-01-31T08:01:17.000Z',
    },
  },
  {
    operation: 'listEvents',
    name: 'the first events',
    parameters: {
      sessionId: '1kg9h1xw80rvvzn18jvsc0wh0ha6nhdeq9s3',
      startTime: '2026-01-31T00:00:00Z',
      endTime: '2026-01-31T08:00:17Z',
      pageSize: 100,
    },
    status: 200,
    response: {
      events: [
        {
          eventId: '1kg9h1xw80rvvzn18jvsc0wh0ha6nhdeq9s3-00000001',
          timestamp: '2026-01-31T08:00:10.000Z',
          eventType: 'v1.SessionService.CreateSession',
          details: {
            sourceId: '1kg9h1s000jzwf9p17hx51a1qa8qabewkvx7',
            revisionId: '14a761796ce99283a2b449d084160cfd3af0530ba51cffb08eeea23ac4b41bbb',
          },
        },
        {
          eventId: '1kg9h1xw80rvvzn18jvsc0wh0ha6nhdeq9s3-00000002',
          timestamp: '2026-01-31T08:00:15.000Z',
          eventType: 'v1.FileSystemService.CreateDirectory',
          details: {
            path: '/docs',
          },
        },
      ],
      nextPageToken: '',
    },
  },
  {
    operation: 'promoteSession',
    name: 'a session',
    parameters: {
      sourceId: '1kg9h1s000jzwf9p17hx51a1qa8qabewkvx7',
    },
    body: {
      sessionId: '1kg9h1xw80rvvzn18jvsc0wh0ha6nhdeq9s3',
      revisionLabel: 'v2',
    },
    status: 200,
    response: {
      jobId: '1kg9h26ng08wxcb22hh5rb0z3zt9cbbph1cr',
      sourceId: '1kg9h1s000jzwf9p17hx51a1qa8qabewkvx7',
      state: 'UNDERLAY_IMPORT_JOB_STATE_QUEUED',
      revisionId: '',
      createdAt: '2026-01-31T08:01:45.000Z',
      startedAt: '',
      completedAt: '',
      errorCode: '',
      errorMessage: '',
      bytesProcessed: '0',
      filesProcessed: '0',
      bytesTransferred: '0',
    },
  },
  {
    operation: 'getUsage',
    name: 'a day',
    parameters: {
      windowStart: '2026-01-31T00:00:00Z',
      windowEnd: '2026-02-01T00:00:00Z',
      granularity: 'day',
    },
    status: 200,
    response: {
      tenantId: 'acme',
      windowStart: '2026-01-31T00:00:00Z',
      windowEnd: '2026-02-01T00:00:00Z',
      granularity: 'day',
      aggregationVersion: 1,
      sessionHours: 0.02638888888888889,
      storageGbMonth: 1.029532418981521e-7,
      egressGb: 0.000017131,
    },
  },
  {
    operation: 'getUsage',
    name: 'a window that ends before it starts',
    parameters: {
      windowStart: '2026-02-01T00:00:00Z',
      windowEnd: '2026-01-31T00:00:00Z',
    },
    status: 400,
    response: {
      code: 3,
      message: 'windowEnd: must be after windowStart; the window is empty or ends before it starts',
      details: [
        {
          '@type': 'type.googleapis.com/google.rpc.ErrorInfo',
          reason: 'INVALID_ARGUMENT',
          domain: 'forkspace',
          metadata: {
            field: 'windowEnd',
          },
        },
      ],
    },
  },
  {
    operation: 'getCasMetrics',
    name: 'the tenant',
    parameters: {},
    status: 200,
    response: {
      objectCount: '17',
      storedBytes: '4639',
      logicalBytes: '4639',
      dedupRatio: 1,
    },
  },
  {
    operation: 'deleteSession',
    name: 'a session',
    parameters: {
      sessionId: '1kg9h1yvg0s7w7hm2q6bgctxv3z571gqmd56',
    },
    status: 200,
    response: {},
  },
  {
    operation: 'deleteSource',
    name: 'a source',
    parameters: {
      sourceId: '1kg9h1sz80dxem5x9z752fc9cjn4ejdaq098',
    },
    status: 200,
    response: {},
  },
]
