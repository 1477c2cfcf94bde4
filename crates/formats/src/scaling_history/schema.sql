CREATE TABLE recorder_state_info (
    BeginTimestamp INT NOT NULL
);
CREATE TABLE worker_pool_info (
    RowID INTEGER PRIMARY KEY AUTOINCREMENT,
    CreationTimestamp INT NOT NULL, SnapshotTimestamp INT NOT NULL,
    Name TEXT, Namespace TEXT,
    MachineType TEXT, Architecture TEXT, Minimum INT, Maximum INT, MaxSurge TEXT, MaxUnavailable TEXT, Zones TEXT,
    DeletionTimestamp INT, Hash TEXT
);
CREATE TABLE mcd_info (
    RowID INTEGER PRIMARY KEY AUTOINCREMENT,
    CreationTimestamp INT NOT NULL, SnapshotTimestamp INT NOT NULL,
    Name TEXT, Namespace TEXT,
    Replicas INTEGER, PoolName TEXT, Zone TEXT, MaxSurge TEXT, MaxUnavailable TEXT, MachineClassName TEXT,
    Labels TEXT, Taints TEXT,
    DeletionTimestamp INT, Hash TEXT
);
CREATE TABLE mcc_info (
    RowID INTEGER PRIMARY KEY AUTOINCREMENT,
    CreationTimestamp INT NOT NULL, SnapshotTimestamp INT NOT NULL,
    Name TEXT, Namespace TEXT,
    InstanceType TEXT, PoolName TEXT, Region TEXT, Zone TEXT, Labels TEXT, Capacity TEXT,
    DeletionTimestamp INT, Hash TEXT
);
CREATE TABLE event_info (
    UID varchar(128) PRIMARY KEY,
    EventTime DATETIME NOT NULL,
    ReportingController VARCHAR(256), Reason VARCHAR(128), Message TEXT,
    InvolvedObjectKind varchar(128), InvolvedObjectName varchar(128),
    InvolvedObjectNamespace varchar(128), InvolvedObjectUID varchar(128)
);
CREATE TABLE node_info (
    RowID INTEGER PRIMARY KEY AUTOINCREMENT,
    CreationTimestamp INT NOT NULL, SnapshotTimestamp INT NOT NULL,
    Name TEXT, Namespace TEXT,
    ProviderID TEXT, AllocatableVolumes INT, Labels TEXT, Taints TEXT, Allocatable TEXT, Capacity TEXT,
    DeletionTimestamp INT, Hash TEXT
);
CREATE TABLE csi_node_info (
    RowID INTEGER PRIMARY KEY AUTOINCREMENT,
    CreationTimestamp INT NOT NULL, SnapshotTimestamp INT NOT NULL,
    Name TEXT, Namespace TEXT,
    AllocatableVolumes INT,
    DeletionTimestamp INT
);
CREATE TABLE pod_info (
    RowID INTEGER PRIMARY KEY AUTOINCREMENT,
    CreationTimestamp INT NOT NULL, SnapshotTimestamp INT NOT NULL,
    Name TEXT, Namespace TEXT,
    UID TEXT NOT NULL, NodeName TEXT, NominatedNodeName TEXT, Phase TEXT, Labels TEXT, Requests TEXT, Spec TEXT,
    ScheduleStatus INTEGER,
    DeletionTimestamp INT, Hash TEXT
);
CREATE TABLE pc_info (
    RowID INTEGER PRIMARY KEY AUTOINCREMENT,
    CreationTimestamp INT NOT NULL, SnapshotTimestamp INT NOT NULL,
    Name TEXT, UID TEXT, Value INT NOT NULL, GlobalDefault BOOLEAN, PreemptionPolicy TEXT, Description TEXT,
    Labels TEXT,
    DeletionTimestamp INT, Hash TEXT
);
-- The recorder never fills it, but its programs want it there.
CREATE TABLE pdb_info (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    uid TEXT, name TEXT, generation INT,
    creationTimestamp DATETIME, deletionTimestamp DATETIME,
    minAvailable TEXT, maxUnAvailable TEXT, spec TEXT
);
CREATE TABLE ca_settings_info (
    RowID INTEGER PRIMARY KEY AUTOINCREMENT,
    SnapshotTimestamp INT NOT NULL,
    Expander TEXT, ScanInterval INT, MaxNodeProvisionTime INT, MaxGracefulTerminationSeconds INT,
    NewPodScaleUpDelay INT, MaxEmptyBulkDelete INT, IgnoreDaemonSetUtilization BOOLEAN, MaxNodesTotal INT,
    NodeGroupsMinMax TEXT, Priorities TEXT,
    Hash TEXT
);
