package hiveingest.services;

import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.security.PrivilegedExceptionAction;
import java.util.ArrayDeque;
import java.util.Deque;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.hadoop.hdfs.DistributedFileSystem;
import org.apache.hadoop.hdfs.MiniDFSCluster;
import org.apache.hadoop.hdfs.MiniDFSNNTopology;
import org.apache.hadoop.hdfs.protocol.HdfsConstants.SafeModeAction;
import org.apache.hadoop.security.Credentials;
import org.apache.hadoop.security.UserGroupInformation;

/**
 * NameNodes and DataNodes, which obey one command a line and end with their standard input.
 *
 * Arguments: a folder, and the port of each NameNode; with two, the first is active and the second a standby. The
 * property hiveingest.datanodes is the number of DataNodes, 1 by default.
 */
public final class Hdfs {
  private final MiniDFSCluster cluster;
  private final boolean isHa;
  private final Deque<MiniDFSCluster.DataNodeProperties> stopped = new ArrayDeque<>();

  private Hdfs(MiniDFSCluster cluster, boolean isHa) {
    this.cluster = cluster;
    this.isHa = isHa;
  }

  public static void main(String[] arguments) throws Exception {
    Configuration conf = new Configuration();
    conf.set("dfs.namenode.fs-limits.min-block-size", "1024");
    conf.set("dfs.replication", "1");
    conf.set("dfs.permissions.enabled", "true");
    conf.set("dfs.namenode.fs-limits.max-component-length", "255");
    if (System.getProperty("hiveingest.site") != null) {
      conf.addResource(new Path(System.getProperty("hiveingest.site")));
      UserGroupInformation.setConfiguration(conf);
    }
    boolean isHa = arguments.length > 2;
    MiniDFSCluster.Builder builder = new MiniDFSCluster.Builder(conf, new File(arguments[0]))
        .numDataNodes(Integer.getInteger("hiveingest.datanodes", 1));
    if (isHa) {
      builder.nnTopology(new MiniDFSNNTopology().addNameservice(new MiniDFSNNTopology.NSConf("warehouse")
          .addNN(new MiniDFSNNTopology.NNConf("nn1").setIpcPort(Integer.parseInt(arguments[1])))
          .addNN(new MiniDFSNNTopology.NNConf("nn2").setIpcPort(Integer.parseInt(arguments[2])))));
    } else {
      builder.nameNodePort(Integer.parseInt(arguments[1]));
    }
    MiniDFSCluster cluster = builder.build();
    if (isHa) {
      cluster.transitionToActive(0);
    }
    cluster.waitActive();
    Hdfs hdfs = new Hdfs(cluster, isHa);
    hdfs.fileSystem(0).setPermission(new Path("/"), new FsPermission((short) 0777));
    answer("UP");
    BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = input.readLine(); line != null; line = input.readLine()) {
      try {
        hdfs.obey(line.split(" "));
        answer("DONE");
      } catch (Exception error) {
        answer("FAILED " + error);
      }
    }
    Runtime.getRuntime().halt(0);
  }

  private void obey(String[] words) throws Exception {
    switch (words[0]) {
      case "safemode":
        fileSystem(0).setSafeMode(words[1].equals("enter") ? SafeModeAction.SAFEMODE_ENTER : SafeModeAction.SAFEMODE_LEAVE);
        break;
      case "quota":  // of names, and of bytes; -1 lifts it
        fileSystem(0).setQuota(new Path(words[1]), Long.parseLong(words[2]), Long.parseLong(words[3]));
        break;
      case "permission":
        fileSystem(0).setPermission(new Path(words[1]), new FsPermission(Short.parseShort(words[2], 8)));
        break;
      case "tokens":  // a file for delegation tokens, and the principal and the keytab of their owner
        UserGroupInformation owner = UserGroupInformation.loginUserFromKeytabAndReturnUGI(words[2], words[3]);
        Credentials credentials = new Credentials();
        owner.doAs((PrivilegedExceptionAction<Object>) () -> {
          try (FileSystem system = FileSystem.newInstance(cluster.getURI(), cluster.getConfiguration(0))) {
            return system.addDelegationTokens(owner.getShortUserName(), credentials);
          }
        });
        credentials.writeTokenStorageFile(new Path("file://" + words[1]), cluster.getConfiguration(0));
        break;
      case "failover":
        int to = Integer.parseInt(words[1]);
        cluster.transitionToStandby(1 - to);
        cluster.transitionToActive(to);
        break;
      case "standby":
        cluster.transitionToStandby(Integer.parseInt(words[1]));
        break;
      case "active":
        cluster.transitionToActive(Integer.parseInt(words[1]));
        break;
      case "stop-namenode":
        cluster.shutdownNameNode(Integer.parseInt(words[1]));
        break;
      case "start-namenode":
        cluster.restartNameNode(Integer.parseInt(words[1]));
        break;
      case "stop-datanode":  // the last one that runs
        stopped.push(cluster.stopDataNode(cluster.getDataNodes().size() - 1));
        break;
      case "start-datanodes":  // all that were stopped
        while (!stopped.isEmpty()) {
          cluster.restartDataNode(stopped.pop(), true);
        }
        cluster.waitActive();
        break;
      case "snapshot":  // of a folder, by that name
        fileSystem(0).allowSnapshot(new Path(words[1]));
        fileSystem(0).createSnapshot(new Path(words[1]), words[2]);
        break;
      case "delete-snapshot":
        fileSystem(0).deleteSnapshot(new Path(words[1]), words[2]);
        fileSystem(0).disallowSnapshot(new Path(words[1]));
        break;
      default:
        throw new IllegalArgumentException(words[0]);
    }
  }

  private DistributedFileSystem fileSystem(int nameNode) throws Exception {
    return cluster.getFileSystem(isHa && cluster.getNameNode(1) != null && cluster.getNameNode(1).isActiveState() ? 1 : nameNode);
  }

  private static void answer(String text) {
    System.out.println(text);
    System.out.flush();
  }
}
