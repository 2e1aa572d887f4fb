package towpath;

import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;

/**
 * Hadoop's local file system, without a process for every file.
 *
 * <p>Hadoop sets the permissions of each new file, and of its checksum. Without its native library, which is in no
 * package, it starts {@code chmod} for that. A new file has the permissions that the process gives it anyway.
 */
public class PlainLocalFileSystem extends LocalFileSystem {
  private static final class Files extends RawLocalFileSystem {
    @Override
    public void setPermission(Path path, FsPermission permission) {
      // The process's umask has done it.
    }
  }

  public PlainLocalFileSystem() {
    super(new Files());
  }
}
