// The part of Hive's metastore service that this package calls. Names, ids and "required" are those of Hive 4.0;
// a field or call that Hive 3.1 lacks is marked. Structures that are written back (Database, Table, Partition)
// are whole but for statistics, so that nothing of a server's is lost on the way.

enum ClientCapability { TEST_CAPABILITY = 1, INSERT_ONLY_TABLES = 2 }
enum DataOperationType { SELECT = 1, INSERT = 2, UPDATE = 3, DELETE = 4, UNSET = 5, NO_TXN = 6 }
enum DatabaseType { NATIVE = 1, REMOTE = 2 }
enum LockLevel { DB = 1, TABLE = 2, PARTITION = 3 }
enum LockState { ACQUIRED = 1, WAITING = 2, ABORT = 3, NOT_ACQUIRED = 4 }
enum LockType { SHARED_READ = 1, SHARED_WRITE = 2, EXCLUSIVE = 3, EXCL_WRITE = 4 }  // 3.1 has no EXCL_WRITE
enum PrincipalType { USER = 1, ROLE = 2, GROUP = 3 }
enum SerdeType { HIVE = 1, SCHEMA_REGISTRY = 2 }
enum TxnState { COMMITTED = 1, ABORTED = 2, OPEN = 3 }
enum TxnType {
  DEFAULT = 0, REPL_CREATED = 1, READ_ONLY = 2, COMPACTION = 3, MATER_VIEW_REBUILD = 4, SOFT_DELETE = 5,
  REBALANCE_COMPACTION = 6
}

exception AlreadyExistsException { 1: string message }
exception ConfigValSecurityException { 1: string message }
exception InvalidObjectException { 1: string message }
exception InvalidOperationException { 1: string message }
exception MetaException { 1: string message }
exception NoSuchLockException { 1: string message }
exception NoSuchObjectException { 1: string message }
exception NoSuchTxnException { 1: string message }
exception TxnAbortedException { 1: string message }
exception TxnOpenException { 1: string message }

// -- catalog

struct PrivilegeGrantInfo {
  1: string privilege
  2: i32 createTime
  3: string grantor
  4: PrincipalType grantorType
  5: bool grantOption
}

struct PrincipalPrivilegeSet {
  1: map<string, list<PrivilegeGrantInfo>> userPrivileges
  2: map<string, list<PrivilegeGrantInfo>> groupPrivileges
  3: map<string, list<PrivilegeGrantInfo>> rolePrivileges
}

struct Database {
  1: string name
  2: string description
  3: string locationUri
  4: map<string, string> parameters
  5: optional PrincipalPrivilegeSet privileges
  6: optional string ownerName
  7: optional PrincipalType ownerType
  8: optional string catalogName
  9: optional i32 createTime             // from 4.0 on, as all that follow
  10: optional string managedLocationUri
  11: optional DatabaseType type
  12: optional string connector_name
  13: optional string remote_dbname
}

struct FieldSchema {
  1: string name
  2: string type
  3: string comment
}

struct SerDeInfo {
  1: string name
  2: string serializationLib
  3: map<string, string> parameters
  4: optional string description
  5: optional string serializerClass
  6: optional string deserializerClass
  7: optional SerdeType serdeType
}

struct Order {
  1: string col
  2: i32 order
}

struct SkewedInfo {
  1: list<string> skewedColNames
  2: list<list<string>> skewedColValues
  3: map<list<string>, string> skewedColValueLocationMaps
}

struct StorageDescriptor {
  1: list<FieldSchema> cols
  2: string location
  3: string inputFormat
  4: string outputFormat
  5: bool compressed
  6: i32 numBuckets
  7: SerDeInfo serdeInfo
  8: list<string> bucketCols
  9: list<Order> sortCols
  10: map<string, string> parameters
  11: optional SkewedInfo skewedInfo
  12: optional bool storedAsSubDirectories
}

struct Table {
  1: string tableName
  2: string dbName
  3: string owner
  4: i32 createTime
  5: i32 lastAccessTime
  6: i32 retention
  7: StorageDescriptor sd
  8: list<FieldSchema> partitionKeys
  9: map<string, string> parameters
  10: string viewOriginalText
  11: string viewExpandedText
  12: string tableType
  13: optional PrincipalPrivilegeSet privileges
  14: optional bool temporary
  15: optional bool rewriteEnabled
  17: optional string catName
  18: optional PrincipalType ownerType
  19: optional i64 writeId               // from 4.0 on, as all that follow
  22: optional byte accessType
  23: optional list<string> requiredReadCapabilities
  24: optional list<string> requiredWriteCapabilities
  25: optional i64 id
}

struct Partition {
  1: list<string> values
  2: string dbName
  3: string tableName
  4: i32 createTime
  5: i32 lastAccessTime
  6: StorageDescriptor sd
  7: map<string, string> parameters
  8: optional PrincipalPrivilegeSet privileges
  9: optional string catName
  10: optional i64 writeId               // from 4.0 on
}

struct EnvironmentContext { 1: map<string, string> properties }
struct ClientCapabilities { 1: required list<ClientCapability> values }

struct CreateTableRequest {              // from 4.0 on
  1: required Table table
  2: optional EnvironmentContext envContext
  9: optional list<string> processorCapabilities
  10: optional string processorIdentifier
}

struct AlterTableRequest {               // from 4.0 on
  1: optional string catName
  2: required string dbName
  3: required string tableName
  4: required Table table
  5: optional EnvironmentContext environmentContext
  6: optional i64 writeId
  7: optional string validWriteIdList
  8: optional list<string> processorCapabilities
  9: optional string processorIdentifier
}

struct AlterTableResponse {}

struct GetTableRequest {
  1: required string dbName
  2: required string tblName
  3: optional ClientCapabilities capabilities
  4: optional string catName
  8: optional list<string> processorCapabilities   // from 4.0 on
  9: optional string processorIdentifier
}

struct GetTableResult { 1: required Table table }

struct AddPartitionsRequest {
  1: required string dbName
  2: required string tblName
  3: required list<Partition> parts
  4: required bool ifNotExists
  5: optional bool needResult
  6: optional string catName
}

struct AddPartitionsResult { 1: optional list<Partition> partitions }

// -- transactions

struct OpenTxnRequest {
  1: required i32 num_txns
  2: required string user
  3: required string hostname
  4: optional string agentInfo
  7: optional TxnType txn_type           // from 4.0 on
}

struct OpenTxnsResponse { 1: required list<i64> txn_ids }
struct AbortTxnRequest { 1: required i64 txnid }
struct AbortTxnsRequest { 1: required list<i64> txn_ids }

struct CommitTxnKeyValue {               // from 4.0 on
  1: required i64 tableId
  2: required string key
  3: required string value
}

struct CommitTxnRequest {
  1: required i64 txnid
  5: optional CommitTxnKeyValue keyValue
  6: optional bool exclWriteEnabled      // from 4.0 on
}

struct InsertEventRequestData {
  1: optional bool replace
  2: required list<string> filesAdded
  3: optional list<string> filesAddedChecksum
  4: optional list<string> subDirectoryList
}

struct WriteNotificationLogRequest {     // from 4.0 on
  1: required i64 txnId
  2: required i64 writeId
  3: required string db
  4: required string table
  5: required InsertEventRequestData fileInfo
  6: optional list<string> partitionVals
}

struct WriteNotificationLogResponse {}

struct TxnToWriteId {
  1: required i64 txnId
  2: required i64 writeId
}

struct AllocateTableWriteIdsRequest {
  1: required string dbName
  2: required string tableName
  3: optional list<i64> txnIds
}

struct AllocateTableWriteIdsResponse { 1: required list<TxnToWriteId> txnToWriteIds }
struct MaxAllocatedTableWriteIdRequest {
  1: required string dbName
  2: required string tableName
}
struct MaxAllocatedTableWriteIdResponse { 1: required i64 maxWriteId }

struct LockComponent {
  1: required LockType type
  2: required LockLevel level
  3: required string dbname
  4: optional string tablename
  5: optional string partitionname
  6: optional DataOperationType operationType
  7: optional bool isTransactional
  8: optional bool isDynamicPartitionWrite
}

struct LockRequest {
  1: required list<LockComponent> component
  2: optional i64 txnid
  3: required string user
  4: required string hostname
  5: optional string agentInfo
}

struct LockResponse {
  1: required i64 lockid
  2: required LockState state
  3: optional string errorMessage        // from 4.0 on
}

struct CheckLockRequest {
  1: required i64 lockid
  2: optional i64 txnid
  3: optional i64 elapsed_ms
}

struct UnlockRequest { 1: required i64 lockid }

struct HeartbeatRequest {
  1: optional i64 lockid
  2: optional i64 txnid
}

struct HeartbeatTxnRangeRequest {
  1: required i64 min
  2: required i64 max
}

struct HeartbeatTxnRangeResponse {
  1: required set<i64> aborted
  2: required set<i64> nosuch
}

struct AddDynamicPartitions {
  1: required i64 txnid
  2: required i64 writeid
  3: required string dbname
  4: required string tablename
  5: required list<string> partitionnames
  6: optional DataOperationType operationType
}

struct GetOpenTxnsResponse {
  1: required i64 txn_high_water_mark
  2: required list<i64> open_txns
  3: optional i64 min_open_txn
  4: required binary abortedBits
}

struct TxnInfo {
  1: required i64 id
  2: required TxnState state
  3: required string user
  4: required string hostname
  5: optional string agentInfo
  6: optional i32 heartbeatCount
  7: optional string metaInfo
  8: optional i64 startedTime
  9: optional i64 lastHeartbeatTime
}

struct GetOpenTxnsInfoResponse {
  1: required i64 txn_high_water_mark
  2: required list<TxnInfo> open_txns
}

struct GetValidWriteIdsRequest {
  1: required list<string> fullTableNames
  2: optional string validTxnList        // required by 3.1
}

struct TableValidWriteIds {
  1: required string fullTableName
  2: required i64 writeIdHighWaterMark
  3: required list<i64> invalidWriteIds
  4: optional i64 minOpenWriteId
  5: required binary abortedBits
}

struct GetValidWriteIdsResponse { 1: required list<TableValidWriteIds> tblValidWriteIds }

struct ShowLocksRequest {
  1: optional string dbname
  2: optional string tablename
  3: optional string partname
  4: optional bool isExtended
}

struct ShowLocksResponseElement {
  1: required i64 lockid
  2: required string dbname
  3: optional string tablename
  4: optional string partname
  5: required LockState state
  6: required LockType type
  7: optional i64 txnid
  8: required i64 lastheartbeat
  9: optional i64 acquiredat
  10: required string user
  11: required string hostname
  12: optional i32 heartbeatCount
  13: optional string agentInfo
  14: optional i64 blockedByExtId
  15: optional i64 blockedByIntId
  16: optional i64 lockIdInternal
}

struct ShowLocksResponse { 1: list<ShowLocksResponseElement> locks }

enum CompactionType { MINOR = 1, MAJOR = 2, REBALANCE = 3, ABORT_TXN_CLEANUP = 4 }

struct CompactionRequest {
  1: required string dbname
  2: required string tablename
  3: optional string partitionname
  4: required CompactionType type
  5: optional string runas
  6: optional map<string,string> properties
  7: optional string initiatorId
  8: optional string initiatorVersion
  9: optional string poolName
  10: optional i32 numberOfBuckets
  11: optional string orderByClause
}

struct CompactionResponse {
  1: required i64 id
  2: required string state
  3: required bool accepted
  4: optional string errormessage
}

struct ShowCompactRequest {
  1: optional i64 id
  2: optional string poolName
  3: optional string dbName
  4: optional string tbName
  5: optional string partName
  6: optional CompactionType type
  7: optional string state
  8: optional i64 limit
  9: optional string order
}

struct ShowCompactResponseElement {
  1: required string dbname
  2: required string tablename
  3: optional string partitionname
  4: required CompactionType type
  5: required string state
  6: optional string workerid
  7: optional i64 start
  8: optional string runAs
  9: optional i64 hightestTxnId
  10: optional string metaInfo
  11: optional i64 endTime
  12: optional string hadoopJobId
  13: optional i64 id
  14: optional string errorMessage
  15: optional i64 enqueueTime
  16: optional string workerVersion
  17: optional string initiatorId
  18: optional string initiatorVersion
  19: optional i64 cleanerStart
  20: optional string poolName
  21: optional i64 nextTxnId
  22: optional i64 txnId
  23: optional i64 commitTime
  24: optional i64 hightestWriteId
}

struct ShowCompactResponse {
  1: required list<ShowCompactResponseElement> compacts
}

struct CompactionInfoStruct {
  1: required i64 id
  2: required string dbname
  3: required string tablename
  4: optional string partitionname
  5: required CompactionType type
  6: optional string runas
  7: optional string properties
  8: optional bool toomanyaborts
  9: optional string state
  10: optional string workerId
  11: optional i64 start
  12: optional i64 highestWriteId
  13: optional string errorMessage
  14: optional bool hasoldabort
  15: optional i64 enqueueTime
  16: optional i64 retryRetention
  17: optional string poolname
  18: optional i32 numberOfBuckets
  19: optional string orderByClause
}

struct OptionalCompactionInfoStruct {
  1: optional CompactionInfoStruct ci
}

struct FindNextCompactRequest {
  1: optional string workerId
  2: optional string workerVersion
  3: optional string poolName
}

service ThriftHiveMetastore {
  string getVersion()
  string get_metastore_db_uuid() throws (1: MetaException o1)
  list<string> set_ugi(1: string user_name, 2: list<string> group_names) throws (1: MetaException o1)
  string get_config_value(1: string name, 2: string defaultValue) throws (1: ConfigValSecurityException o1)

  void create_database(1: Database database)
    throws (1: AlreadyExistsException o1, 2: InvalidObjectException o2, 3: MetaException o3)
  Database get_database(1: string name) throws (1: NoSuchObjectException o1, 2: MetaException o2)
  list<string> get_databases(1: string pattern) throws (1: MetaException o1)
  void alter_database(1: string dbname, 2: Database db) throws (1: MetaException o1, 2: NoSuchObjectException o2)
  void drop_database(1: string name, 2: bool deleteData, 3: bool cascade)
    throws (1: NoSuchObjectException o1, 2: InvalidOperationException o2, 3: MetaException o3)

  void create_table_req(1: CreateTableRequest request)   // from 4.0 on
    throws (1: AlreadyExistsException o1, 2: InvalidObjectException o2, 3: MetaException o3,
            4: NoSuchObjectException o4)
  void create_table_with_environment_context(1: Table tbl, 2: EnvironmentContext environment_context)
    throws (1: AlreadyExistsException o1, 2: InvalidObjectException o2, 3: MetaException o3,
            4: NoSuchObjectException o4)
  GetTableResult get_table_req(1: GetTableRequest req) throws (1: MetaException o1, 2: NoSuchObjectException o2)
  list<string> get_tables(1: string db_name, 2: string pattern) throws (1: MetaException o1)
  AlterTableResponse alter_table_req(1: AlterTableRequest req)   // from 4.0 on
    throws (1: InvalidOperationException o1, 2: MetaException o2)
  void alter_table_with_environment_context(
      1: string dbname, 2: string tbl_name, 3: Table new_tbl, 4: EnvironmentContext environment_context)
    throws (1: InvalidOperationException o1, 2: MetaException o2)
  void drop_table_with_environment_context(
      1: string dbname, 2: string name, 3: bool deleteData, 4: EnvironmentContext environment_context)
    throws (1: NoSuchObjectException o1, 2: MetaException o3)

  AddPartitionsResult add_partitions_req(1: AddPartitionsRequest request)
    throws (1: InvalidObjectException o1, 2: AlreadyExistsException o2, 3: MetaException o3)
  Partition get_partition(1: string db_name, 2: string tbl_name, 3: list<string> part_vals)
    throws (1: MetaException o1, 2: NoSuchObjectException o2)
  list<Partition> get_partitions(1: string db_name, 2: string tbl_name, 3: i16 max_parts)
    throws (1: NoSuchObjectException o1, 2: MetaException o2)
  list<string> get_partition_names(1: string db_name, 2: string tbl_name, 3: i16 max_parts)
    throws (1: NoSuchObjectException o1, 2: MetaException o2)
  list<Partition> get_partitions_by_names(1: string db_name, 2: string tbl_name, 3: list<string> names)
    throws (1: MetaException o1, 2: NoSuchObjectException o2, 3: InvalidObjectException o3)
  list<Partition> get_partitions_by_filter(1: string db_name, 2: string tbl_name, 3: string filter, 4: i16 max_parts)
    throws (1: MetaException o1, 2: NoSuchObjectException o2)
  void alter_partitions_with_environment_context(
      1: string db_name, 2: string tbl_name, 3: list<Partition> new_parts, 4: EnvironmentContext environment_context)
    throws (1: InvalidOperationException o1, 2: MetaException o2)
  bool drop_partition_with_environment_context(
      1: string db_name, 2: string tbl_name, 3: list<string> part_vals, 4: bool deleteData,
      5: EnvironmentContext environment_context)
    throws (1: NoSuchObjectException o1, 2: MetaException o2)

  OpenTxnsResponse open_txns(1: OpenTxnRequest rqst)
  void abort_txn(1: AbortTxnRequest rqst) throws (1: NoSuchTxnException o1)
  void abort_txns(1: AbortTxnsRequest rqst) throws (1: NoSuchTxnException o1)
  void commit_txn(1: CommitTxnRequest rqst) throws (1: NoSuchTxnException o1, 2: TxnAbortedException o2)
  GetOpenTxnsResponse get_open_txns()
  GetOpenTxnsInfoResponse get_open_txns_info()
  GetValidWriteIdsResponse get_valid_write_ids(1: GetValidWriteIdsRequest rqst)
    throws (1: NoSuchTxnException o1, 2: MetaException o2)
  AllocateTableWriteIdsResponse allocate_table_write_ids(1: AllocateTableWriteIdsRequest rqst)
    throws (1: NoSuchTxnException o1, 2: TxnAbortedException o2, 3: MetaException o3)
  MaxAllocatedTableWriteIdResponse get_max_allocated_table_write_id(1: MaxAllocatedTableWriteIdRequest rqst)
    throws (1: MetaException o1)  // 4.0 on
  void add_write_ids_to_min_history(1: i64 txnId, 2: map<string, i64> writeIds) throws (1: MetaException o2)  // 4.0 on
  LockResponse lock(1: LockRequest rqst) throws (1: NoSuchTxnException o1, 2: TxnAbortedException o2)
  LockResponse check_lock(1: CheckLockRequest rqst)
    throws (1: NoSuchTxnException o1, 2: TxnAbortedException o2, 3: NoSuchLockException o3)
  void unlock(1: UnlockRequest rqst) throws (1: NoSuchLockException o1, 2: TxnOpenException o2)
  ShowLocksResponse show_locks(1: ShowLocksRequest rqst)
  void heartbeat(1: HeartbeatRequest ids)
    throws (1: NoSuchLockException o1, 2: NoSuchTxnException o2, 3: TxnAbortedException o3)
  HeartbeatTxnRangeResponse heartbeat_txn_range(1: HeartbeatTxnRangeRequest txns)
  void add_dynamic_partitions(1: AddDynamicPartitions rqst)
    throws (1: NoSuchTxnException o1, 2: TxnAbortedException o2)
  WriteNotificationLogResponse add_write_notification_log(1: WriteNotificationLogRequest rqst)   // from 4.0 on

  CompactionResponse compact2(1: CompactionRequest rqst)
  ShowCompactResponse show_compact(1: ShowCompactRequest rqst)
  OptionalCompactionInfoStruct find_next_compact2(1: FindNextCompactRequest rqst)   // this one and all below: from 4.0 on
    throws (1: MetaException o1)
  void update_compactor_state(1: CompactionInfoStruct cr, 2: i64 txn_id)
  void set_hadoop_jobid(1: string jobId, 2: i64 cq_id)
  void mark_compacted(1: CompactionInfoStruct cr) throws (1: MetaException o1)
  void mark_failed(1: CompactionInfoStruct cr) throws (1: MetaException o1)
  void mark_refused(1: CompactionInfoStruct cr) throws (1: MetaException o1)
  void mark_cleaned(1: CompactionInfoStruct cr) throws (1: MetaException o1)
}
